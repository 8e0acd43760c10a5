"""Entries of kind `adopt`, and checksums of the leases."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the checksum of each lease. The new version number makes an earlier program refuse."""
    op.add_column("leases", sa.Column("seal", sa.Text, nullable=True))
    connection = op.get_bind()
    columns = "SELECT release, fence, holder, expires FROM leases"
    for row in connection.exec_driver_sql(columns).all():
        # The same checksum as `tasks.ledger.leases.lease_seal`, which later versions may change.
        text = json.dumps(list(row), separators=(",", ":"), ensure_ascii=False)
        connection.execute(
            sa.text("UPDATE leases SET seal = :seal WHERE release = :release"),
            {"seal": hashlib.sha256(text.encode()).hexdigest(), "release": row.release},
        )
