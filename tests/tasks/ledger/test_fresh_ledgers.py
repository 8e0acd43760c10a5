"""What lets the tests' ledgers begin sooner makes them as the migrations do."""

import pytest
import sqlalchemy as sa

from tasks.ledger.database import ledger_database
from tasks.ledger.ledger import Ledger
from tests.quick_ledgers import Remembered

TABLES = {
    "sqlite": "SELECT type, name, tbl_name, sql FROM sqlite_master",
    "postgresql": "SELECT table_name, column_name, data_type, column_default, is_nullable"
    " FROM information_schema.columns WHERE table_schema = 'public'"
    " UNION ALL SELECT 'index', indexname, indexdef, '', '' FROM pg_indexes"
    " WHERE schemaname = 'public'"
    " UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid), '', '' FROM pg_trigger"
    " WHERE NOT tgisinternal",
}


def made(url):
    """Return what is in a ledger once it was made."""
    Ledger(url)
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql(TABLES[engine.dialect.name]).fetchall()
        version = connection.exec_driver_sql("SELECT * FROM alembic_version").fetchall()
    engine.dispose()
    return sorted(map(repr, found)), version


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_fresh_ledger_has_what_the_migrations_make(dialect, request, tmp_path, monkeypatch):
    def fresh(name):
        if dialect == "sqlite":
            return f"sqlite:///{tmp_path / name}.db"
        return request.getfixturevalue("postgres_server").create_database()

    remembered = ledger_database._migrate
    assert isinstance(remembered, Remembered)
    made(fresh("noted"))
    with monkeypatch.context() as patch:
        patch.setattr(remembered, "migrate", None)
        repeated = made(fresh("repeated"))
    monkeypatch.setattr(ledger_database, "_migrate", remembered.migrate)
    assert made(fresh("migrated")) == repeated
    assert len(repeated[0]) > 10
