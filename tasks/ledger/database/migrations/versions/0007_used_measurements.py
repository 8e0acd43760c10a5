"""Reservations that use an earlier release's results, which an earlier program refuses as wrong."""

from __future__ import annotations

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new version number makes an earlier program refuse the ledger."""
