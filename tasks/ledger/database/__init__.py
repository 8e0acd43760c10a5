"""The database under the ledger: connection, tables, migrations, and one transaction at a time.

Read `ledger_database` first.
"""
