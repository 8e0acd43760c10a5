"""What the commands do, if that is more than reading and answering.

`run_release` runs and resumes releases. `publication_decisions` records looks, and publishes,
withdraws or abandons releases. `drafting` drafts a schema, `signing_keys` makes a key, and
`internal_comparisons` compares a published release with its file. A command that only reads calls
`flows.answers`; one that only adds an entry to the ledger calls the ledger.
"""
