"""Alembic's environment: migrates inside the transaction of the given connection."""

from __future__ import annotations

from alembic import context

from tasks.ledger.database.ledger_tables import METADATA

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA, transaction_per_migration=False)
context.run_migrations()
