"""Monitoring for people and machines: log, events, metrics, and pages in Prefect.

Public values only. `outcome` says how a run ended, and `announcement` tells everybody. The rules of
the alerts are data, in `deployments/automations.yaml` (on events) and `deployments/prometheus.yaml`
(on metrics); `automations` puts the former on a Prefect server.
"""
