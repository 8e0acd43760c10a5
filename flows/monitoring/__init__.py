"""What people and machines can watch: log, events, metrics, alerts, and pages in Prefect.

Public values only.
"""
