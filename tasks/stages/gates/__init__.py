"""The ledger's tasks: they gate the stages of a release.

`reserve` is the first task of a release. A `grant` precedes `count` and each stage that charges,
and `settle` precedes `publish`. Read `gate_task` first. If the ledger refuses, the task fails in
Prefect with the ledger's message. This room may import what the stages may.
"""
