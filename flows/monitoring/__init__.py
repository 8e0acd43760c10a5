"""Monitoring for people and machines: log, events, metrics, and pages in Prefect.

It uses public values only. `outcome` describes how a run ended, and sends that to the log and to
Prefect. The alert rules are files: `deployments/automations.yaml` (on events), which
`automations` puts on a Prefect server, and `deployments/prometheus.yaml` (on metrics).
"""
