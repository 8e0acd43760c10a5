"""Prefect's server and settings, and what installation prepares.

Read `settings` first: it is applied before Prefect is imported.
"""
