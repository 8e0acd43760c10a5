"""The science of a release, independent of run folders, databases and orchestrators.

`schema` holds what is public about a file. `confidential` holds rows and exact counts. `wall` turns
exact counts into noisy values, and charges for each. `methods`, `spec`, `bundle` and `analysis` are
beyond the wall: they see noisy values only. `documents`, `tables`, `metrics` and `inference` are
shared tools. `audit` checks the charges on generated files. A room imports only the rooms below it;
`pyproject.toml` has the order.
"""
