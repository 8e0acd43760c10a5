"""Entries that count tried schemas and refused desks, which an earlier program takes for damage."""

from __future__ import annotations

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new number makes an earlier version of the program refuse the ledger."""
