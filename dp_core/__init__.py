"""The science of a release, without files of a run, databases or an orchestrator.

`schema` holds what is public about a file. `confidential` holds rows and exact counts. `wall` turns
exact counts into noisy values, and charges for each. `methods`, `spec`, `bundle` and `analysis` lie
beyond the wall: they see noisy values only. `documents`, `tables`, `metrics` and `inference` are
tools for all of them. A room imports only the rooms below it; `pyproject.toml` has the order.
"""
