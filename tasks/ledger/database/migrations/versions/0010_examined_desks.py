"""Entries of desks whose opening is an attempt, which an earlier program takes for damage."""

from __future__ import annotations

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new number makes an earlier version of the program refuse the ledger."""
