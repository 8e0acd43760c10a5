"""The demo's data, schema and spec; read by `flows.demo_job`."""
