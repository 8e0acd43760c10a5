"""Entries of kind `open-desk` and `close-desk`, which an earlier program cannot read."""

from __future__ import annotations

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new version number makes an earlier program refuse the ledger."""
