"""The ledger's tasks: they gate the stages of a release.

`reserve` is the first task of a release. A `grant` stands before each stage that looks at the data,
and `settle` before the publication. Read `gate_task` first. A gate that refuses is a failed task in
Prefect, with the ledger's sentence. This room may import what the stages may.
"""
