"""The database under the ledger: its store, its tables, and one transaction at a time.

Read `ledger_store` first (what a database must do), then `transaction` (what is computed from it)
and `ledger_database` (opening, locks). Only `sql_store`, `ledger_tables`, `ledger_versions` and
`ledger_place` have statements of SQL.
"""
