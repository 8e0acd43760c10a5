"""The work of the commands that do more than read and answer.

`making` runs and resumes releases, `deciding` publishes and withdraws those that await approval,
`abandonment` abandons one, `serving` makes releases on a schedule, `drafting` drafts a schema,
`signing_keys` makes a key, and `internal_regression` is `infer --against-confidential`. A command
that only reads calls `flows.answers`; one that only adds a ledger entry calls the ledger.
"""
