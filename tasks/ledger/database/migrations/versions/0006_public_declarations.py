"""Entries of kind `declare-public` and `refuse-public`, which an earlier program cannot read."""

from __future__ import annotations

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new version number makes an earlier program refuse the ledger."""
