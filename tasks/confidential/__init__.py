"""The process that may see the data, and the client by which everything else talks to it.

The process holds the data, the code store, the exact counts, Great Expectations and Dask. It hosts
the kernel, which charges, draws and stores. Prefect's process holds a `Client`, and no row.

Read `messages` first: the closed list of what crosses. `frames` carries a message, `plain_values`
writes requests and receipts as plain values. `process` starts it, and `confinement` gives up what
it does not need. `host` answers messages with `confidential_run` and `file_work`; the other side,
`client`, `connection` and `public_run`, imports none of these three. This room may import what
reads the data.
"""
