"""Data, schema and spec of `dp-release demo`, which `flows.cli.actions.demo_job` reads.

`households.csv.gz` and `persons.csv.gz`, for `demo --households`, are generated:
`python benchmarks/households.py --write flows/demo` makes them again.
"""
