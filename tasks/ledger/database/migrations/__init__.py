"""Alembic migrations of the ledger's tables between versions of the program."""
