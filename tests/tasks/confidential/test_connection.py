"""The connection to the confidential process: how far the process must reach."""

from types import SimpleNamespace

import pytest

from dp_core.plan.data_location import DatabaseTable
from tasks.confidential import connection
from tasks.confidential.connection import connect

TABLE = DatabaseTable("SURVEY_DB", None, "town")
STARTED = object()  # by the spec


@pytest.mark.parametrize(
    ("data", "ledger", "address", "of_spec", "reach"),
    [
        ("town.csv", None, None, None, "home"),
        (None, None, None, None, "home"),
        (TABLE, None, None, None, "network"),
        ("s3://survey/town.parquet", None, None, None, "network"),
        ("town.csv", "postgresql://ledger@host/ledger", None, None, "network"),
        ("town.csv", "sqlite:////srv/ledger.db", None, None, "home"),
        ("town.csv", None, "tls://10.0.0.1:8786", None, "network"),
        ("town.csv", None, "tls://10.0.0.1:8786", STARTED, "network"),
        (TABLE, None, None, STARTED, "programs"),
    ],
)
def test_the_process_reaches_what_the_release_needs(
    monkeypatch, data, ledger, address, of_spec, reach
):
    asked = []
    monkeypatch.setattr(connection, "start", lambda *given: asked.append(given))
    monkeypatch.delenv("DP_RELEASE_LEDGER", raising=False)
    if ledger is not None:
        monkeypatch.setenv("DP_RELEASE_LEDGER", ledger)
    spec = SimpleNamespace(release="town", data=data, dask=of_spec)
    connect(SimpleNamespace(spec=spec), address)
    assert asked == [("town", reach, ["SURVEY_DB"] if data is TABLE else [])]
