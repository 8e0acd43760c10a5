"""What the commands do, where that is more than to read and to answer.

`making` runs and resumes releases, `deciding` publishes and withdraws those that await approval,
`abandonment` gives one up, `serving` makes releases on a schedule, `drafting` drafts a schema, and
`internal_regression` is `infer --against-confidential`. A command that only reads goes from
`commands` to `flows.answers`; one that adds an entry to an account calls the ledger itself.
"""
