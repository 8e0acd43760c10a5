"""Entries of kind `examine`, `verdict` and `allow-retry`, which an earlier program cannot read."""

from __future__ import annotations

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new version number makes an earlier program refuse the ledger."""
