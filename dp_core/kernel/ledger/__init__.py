"""The rules of the ledger, independent of any database: sessions, receipts and entries.

Read `session` (the kernel's interface), `receipts` and `entries` (the records), then `rules` (what
an entry may change). `tasks.ledger` implements the ledger on SQLite and PostgreSQL.
"""
