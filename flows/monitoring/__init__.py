"""Monitoring for people and machines: log, events, metrics, alerts, and pages in Prefect.

Public values only.
"""
