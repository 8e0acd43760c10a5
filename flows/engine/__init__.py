"""Prefect's own server and settings, and what is made ready at installation.

Read `settings` first: it is applied before Prefect is imported.
"""
