"""The ledger's tables through the versions of the program, by Alembic."""
