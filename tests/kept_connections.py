"""Connections to PostgreSQL, and compiled statements, are kept from one ledger to the next.

The program makes one for every transaction; the server then begins a process that knows nothing of
the tables yet, which takes 10 ms of CPU. In the tests' own process the ledgers of one database
share an engine, and connections are kept for a while, and looked at before they are used again: the
server may have been stopped, or the database dropped.

An engine compiles each statement when it first meets it. A test's fresh ledger has an engine of its
own, so that took a tenth of the tests of ledgers; here all engines of a dialect share the compiled.

A release opens its ledger several times, each time with an engine of its own, which asks the
database what it is. The engine of a ledger in a file is kept as well. It keeps no connection: the
file may be replaced.
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.util import LRUCache

from tasks.ledger.database import ledger_database

KEPT = 4
"""Databases whose connections are kept: those of a test, not those of all tests before it."""

_engines: OrderedDict[tuple[str, int], sa.Engine] = OrderedDict()
_of_files: OrderedDict[tuple[str, int], sa.Engine] = OrderedDict()
_make = ledger_database._engine


@functools.cache
def _alike(kind: type[Any]) -> tuple[type[Any], LRUCache[Any, Any]]:
    """Return a kind of dialect, keys of compiled statements, of which all are equal, and these."""
    equal = {
        "__eq__": lambda one, other: type(one) is type(other),
        "__hash__": lambda one: hash(type(one)),
        "supports_statement_cache": True,
    }
    return type(kind.__name__, (kind,), equal), LRUCache(500)


def _with_kept_statements(engine: sa.Engine) -> sa.Engine:
    """Let an engine use what SQLAlchemy has compiled for the engines before it."""
    kind, engine._compiled_cache = _alike(type(engine.dialect))
    engine.dialect.__class__ = kind
    return engine


class _Sqlalchemy:
    """SQLAlchemy, as the ledger's database uses it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(sa, name)

    def create_engine(self, url: sa.URL, **options: Any) -> sa.Engine:
        if url.get_backend_name() == "postgresql":
            # Never a statement that is prepared for longer than the program would.
            options["connect_args"] = {**options["connect_args"], "prepare_threshold": None}
            options |= {"poolclass": sa.QueuePool, "pool_size": 1, "max_overflow": -1}
            options["pool_pre_ping"] = True
        return _with_kept_statements(sa.create_engine(url, **options))


def _engine(url: str) -> sa.Engine:
    key = url, os.getpid()  # a process that was forked has connections of its own
    if key in _engines:
        return _engines[key]
    if key in _of_files and Path(str(_of_files[key].url.database)).is_file():
        return _of_files[key]
    made = _make(url)
    if made.dialect.name == "sqlite" and made.url.database not in (None, "", ":memory:"):
        _of_files[key] = made
        if len(_of_files) > KEPT:
            _of_files.popitem(last=False)
    if made.dialect.name == "postgresql":
        _engines[key] = made
        if len(_engines) > KEPT:
            (_, maker), oldest = _engines.popitem(last=False)
            oldest.dispose(close=maker == os.getpid())
    return made


def let_go(url: str) -> None:
    """Close the connections to a database that nobody uses."""
    engine = _engines.pop((url, os.getpid()), None)
    if engine is not None:
        engine.dispose()


@pytest.fixture(scope="session", autouse=True)
def connections_are_kept() -> Iterator[None]:
    """Keep the connections of this process's ledgers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_database, "sa", _Sqlalchemy())
        patch.setattr(ledger_database, "_engine", _engine)
        yield
        while _engines:
            let_go(next(iter(_engines))[0])


@pytest.fixture
def new_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test have a connection for every transaction, as the program makes them.

    Of one that is kept PostgreSQL counts what transactions before did as well.
    """
    monkeypatch.setattr(ledger_database, "sa", sa)
    monkeypatch.setattr(ledger_database, "_engine", _make)
