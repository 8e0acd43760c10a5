"""The rules of the ledger, without a database: sessions, receipts, entries and what they may change.

Read `session` (what the curator asks for), `receipts` and `entries` (what is recorded), then `rules`
(what an entry may do). `tasks.ledger` puts these on SQLite and PostgreSQL.
"""
