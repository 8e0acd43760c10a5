"""The rules of the ledger, without a database: sessions, receipts and entries.

Read `session` (what the curator asks for), `receipts` and `entries` (what is recorded), then
`rules` (what an entry may change). `tasks.ledger` implements them on SQLite and PostgreSQL.
"""
