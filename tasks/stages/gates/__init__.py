"""The ledger's tasks: they gate the stages of a release.

`reserve` is the first task of a release. A `grant` precedes each stage that counts records or may
charge, and `settle` precedes `publish`. Read `gate_task` first. If the ledger refuses, the task
fails in Prefect with the ledger's message. A `grant` is refused in the confidential process, so it
fails with a fixed sentence. This room may import what the stages may.
"""
