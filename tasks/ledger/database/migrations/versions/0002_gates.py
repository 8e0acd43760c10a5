"""Entries of kind `hold`, `look` and `decide`, which an earlier program would report as damage."""

from __future__ import annotations

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table; the new version number makes an earlier program refuse the ledger."""
