"""Holds, looks and decisions: new kinds of entries, which a program of before would call damage."""

from __future__ import annotations

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table: the step alone lets a program of before refuse the ledger and say why."""
