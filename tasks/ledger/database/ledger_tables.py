"""The ledger's tables, and the triggers by which the database refuses to change a row."""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()

# An INTEGER primary key orders the table itself in SQLite, so reading in order needs no index.
POSITION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ENTRIES = sa.Table(
    "entries",
    METADATA,
    sa.Column("position", POSITION, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("release", sa.Text, nullable=False),
    sa.Column("reservation", sa.BigInteger, nullable=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("about", sa.Text, nullable=True),
    sa.Column("key", sa.Text, nullable=True, unique=True),
    # privacy: the published receipt has only the day (`at`), because the duration of a stage
    # depends on the data. The time (`recorded`) is internal.
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("recorded", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("salt", sa.Text, nullable=False),
    sa.Column("link", sa.Text, nullable=False, unique=True),
    sa.Column("signer", sa.Text, nullable=True),
    sa.Column("signature", sa.Text, nullable=True),
    sa.Index("entries_of_account", "account", "kind", "position"),
    sa.Index("entries_of_release", "release", "kind", "position"),
    # Without the second index, the settlement of a reservation is searched among all settlements.
    sa.Index("entries_of_reservation", "reservation", "kind", "about"),
    sa.Index("entries_of_reservation_in_order", "reservation", "kind", "position"),
    sa.Index("entries_about", "about", "kind", "position"),
    sa.Index("entries_of_kind", "kind", "position"),
)

# Running totals make a balance one look-up, however long the history is. The audit recomputes each
# of them from the entries.
TOTALS = sa.Table(
    "totals",
    METADATA,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Index("totals_by_position", "position"),
)

# The process that works on a release now. Leases are not part of the record of what was spent.
LEASES = sa.Table(
    "leases",
    METADATA,
    sa.Column("release", sa.Text, primary_key=True),
    sa.Column("fence", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("expires", sa.BigInteger, nullable=False),
    # Checksum of the other columns; version 0005 added it, so the column itself allows NULL.
    sa.Column("seal", sa.Text, nullable=True),
)

# Named by Alembic, which migrated the ledgers of earlier versions.
VERSION = sa.Table(
    "alembic_version",
    METADATA,
    sa.Column("version_num", sa.String(32), primary_key=True),
)

APPEND_ONLY = {
    "entries": "position = NEW.position OR link = NEW.link OR key = NEW.key",
    "totals": "subject = NEW.subject AND position = NEW.position",
}
"""Tables whose rows never change; for each the condition `taken` of `refusals`."""

_MESSAGE = "the ledger is append-only"

REFUSE_CHANGE = (
    "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = 'integrity_constraint_violation';"
    " END $$"
)
"""Statement that creates the function of the triggers in PostgreSQL."""


def refusals(dialect: str, table: str, taken: str) -> list[str]:
    """Return statements that create triggers against changing or deleting rows of a table.

    Released versions made their tables with it, so its result for these must not change.

    Args:
        dialect: `sqlite` or `postgresql`.
        table: Name of the table.
        taken: SQL condition for an existing row that the new row, `NEW`, would replace (SQLite).
    """
    if dialect == "sqlite":
        return [
            *(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
                for verb in ("UPDATE", "DELETE")
            ),
            # INSERT OR REPLACE deletes a conflicting row without calling the DELETE trigger.
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}"
            f" WHEN EXISTS (SELECT 1 FROM {table} WHERE {taken})"
            f" BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END",
        ]
    return [
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    ]
