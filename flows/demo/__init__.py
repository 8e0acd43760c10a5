"""The demo's data, schema and spec; read by `flows.cli.actions.demo_job`."""
