"""The first tables: entries, running totals, leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tasks.ledger.database.ledger_tables import APPEND_ONLY, POSITION, REFUSE_CHANGE, refusals

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and the triggers that refuse changes of the record."""
    op.create_table(
        "entries",
        sa.Column("position", POSITION, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("release", sa.Text, nullable=False),
        sa.Column("reservation", sa.BigInteger, nullable=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("about", sa.Text, nullable=True),
        sa.Column("key", sa.Text, nullable=True, unique=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("link", sa.Text, nullable=False, unique=True),
        sa.Column("signer", sa.Text, nullable=True),
        sa.Column("signature", sa.Text, nullable=True),
    )
    op.create_index("entries_of_account", "entries", ["account", "kind", "position"])
    op.create_index("entries_of_release", "entries", ["release", "kind", "position"])
    op.create_index("entries_of_reservation", "entries", ["reservation", "kind", "about"])
    in_order = ["reservation", "kind", "position"]
    op.create_index("entries_of_reservation_in_order", "entries", in_order)
    op.create_index("receipts_of_reservation", "entries", ["reservation", "number"])
    op.create_index("entries_about", "entries", ["about", "kind", "position"])
    op.create_index("entries_of_kind", "entries", ["kind", "position"])
    op.create_table(
        "totals",
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_index("totals_by_position", "totals", ["position"])
    op.create_table(
        "leases",
        sa.Column("release", sa.Text, primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
    dialect = op.get_bind().dialect.name
    if dialect == "postgresql":
        op.execute(REFUSE_CHANGE)
    for table, taken in APPEND_ONLY.items():
        for statement in refusals(dialect, table, taken):
            op.execute(statement)
