"""The demo's data, schema and spec; `flows.cli.actions.demo_job` reads them."""
