"""The demo's data, schema and spec; read by `flows.releases.demo_job`."""
