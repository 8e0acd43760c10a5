"""Data, schema and spec of `dp-release demo`, which `flows.cli.actions.demo_job` reads."""
