"""Prefect's server and settings, and the caches that the installation prepares.

Read `settings` first: the settings are made before Prefect is imported.
"""
