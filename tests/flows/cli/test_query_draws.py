"""`dp-release query` on a bundle whose sets are private draws."""

import pytest

from dp_core.analysis.query.sources import NOTE
from tests.flows.test_presets import BINARY, town, write  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]


@pytest.mark.parametrize("sets", ["sets: 1, mode: shared", "sets: 2, mode: split"])
def test_a_share_is_answered_by_the_receipts_of_the_draws(town, command, sets):  # noqa: F811
    write(town, "multinomial-dirichlet", sets=sets)
    assert command("run", town.spec, "--out", town.out).code == 0
    answer = command("query", town.out, "share of marital = b", "--json").json
    (cell,) = answer["cells"]
    assert answer["determined"]
    assert NOTE in answer["notes"]
    rows = [line.split(",") for line in (town.folder / "town.csv").read_text().splitlines()[1:]]
    share = sum(row[3] == "b" for row in rows) / len(rows)
    assert 0 <= cell["low"] <= share <= cell["high"] <= 1
    assert command("query", town.out, "share of marital by sex").code == 2
