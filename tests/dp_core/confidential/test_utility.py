from __future__ import annotations

import json
import stat
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dp_core.confidential.memory_counter import observed_cells
from dp_core.confidential.utility import utility, write_utility
from dp_core.errors import StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.lab.comparison.utility_page import UtilityPage
from dp_core.metrics import marginal_error
from dp_core.metrics.marginal_error import Tally, average_tvd
from dp_core.schema.reading.schema_file import parse_schema
from tests.raising import raising

DOMAIN = Domain(("a", "b", "c"), (10, 8, 3))
COLUMNS = {"a": (10, "<i>"), "b": (8, "b"), "c": (3, "c")}
SCHEMA = parse_schema(
    {
        "version": "1",
        "title": "<b>A & B</b>",
        "columns": {
            name: {"type": "category", "levels": [f"{label}{code}" for code in range(size)]}
            for name, (size, label) in COLUMNS.items()
        },
    }
)
PAGE = UtilityPage(title=SCHEMA.title, schema=SCHEMA, released=(), records=100)


def dataset(rows: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    codes = [rng.binomial(size - 1, 0.4, rows) for size in DOMAIN.sizes]
    return Dataset(DOMAIN, np.stack(codes).astype(np.uint16))


class ExactCounter:
    def __init__(self, data: Dataset) -> None:
        self.data = data

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        tally = Tally(DOMAIN, cliques).add(self.data)
        return {clique: Marginal(DOMAIN.project(clique), tally.count(clique)) for clique in cliques}

    def observed(self, clique):
        self.observations = [*getattr(self, "observations", ()), clique]
        return observed_cells(self.data.codes[[*DOMAIN.axes(clique)]], DOMAIN.project(clique).sizes)


def counters():
    return ExactCounter(dataset(100, 1)), [ExactCounter(dataset(100, 2))]


def test_utility_is_the_average_distance_to_the_confidential_file():
    truth, sets = dataset(1_000, 1), [dataset(900, 2), dataset(800, 3)]
    found = utility(ExactCounter(truth), [ExactCounter(data) for data in sets], DOMAIN)

    for errors, data in zip(found.sets, sets, strict=True):
        assert errors == tuple(average_tvd(truth, data, ways) for ways in (1, 2, 3))
    assert found.means()[2] == pytest.approx(
        np.mean([average_tvd(truth, data, 2).mean for data in sets])
    )


def test_mostly_empty_tables_are_compared_by_their_occupied_cells(monkeypatch):
    """Here those with more cells than twice the records: all pairs, and all three columns."""
    real, drawn = ExactCounter(dataset(11, 1)), [ExactCounter(dataset(rows, 2)) for rows in (9, 12)]
    told: list[float] = []
    dense = utility(real, drawn, DOMAIN)
    monkeypatch.setattr(marginal_error, "_EMPTY_CELLS", 9)
    monkeypatch.setattr(marginal_error, "_CELLS_PER_RECORD", 2)
    sparse = utility(real, drawn, DOMAIN, progress=told.append)
    for counter in (real, *drawn):
        assert counter.observations == [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert [*sparse.tables] == [*dense.tables]
    for clique, found in sparse.tables.items():
        assert found == pytest.approx(dense.tables[clique], rel=1e-12)
    for one, other in zip(sparse.sets, dense.sets, strict=True):
        for way, dense_way in zip(one, other, strict=True):
            assert way.mean == pytest.approx(dense_way.mean, rel=1e-12)
            assert way.worst_clique == dense_way.worst_clique
    assert told == sorted(told)
    assert told[-1] == 1


def test_a_file_of_one_column_has_one_way_tables_only():
    domain = Domain(("a",), (3,))

    class One:
        def count(self, cliques):
            return {c: Marginal(domain, np.array([5, 0, 0])) for c in cliques}

    assert utility(One(), [One()], domain).means() == {1: 0.0}


def test_confidential_figures_say_so_first_and_are_the_owner_s_only(tmp_path):
    found = utility(*counters(), DOMAIN, cell_limit=50)
    write_utility(tmp_path / "internal", found, PAGE)

    assert stat.S_IMODE((tmp_path / "internal").stat().st_mode) == 0o700
    for name in ("utility.json", "utility.html"):
        path = tmp_path / "internal" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        first = path.read_text().split("\n")[1 if name.endswith("json") else 0]
        assert "CONFIDENTIAL" in first
    values = json.loads((tmp_path / "internal" / "utility.json").read_text())
    assert values["sets"][0]["2-way"]["skipped_because_too_large"] == 1
    page = (tmp_path / "internal" / "utility.html").read_text()
    assert "<b>A" not in page


def test_a_page_or_scores_that_cannot_be_made_stop_nothing(tmp_path):
    """Otherwise the state of the stage would depend on the data."""

    scores = {"mean": {"k_marginal": np.int64(4711)}}  # not of JSON
    write_utility(
        tmp_path / "internal",
        utility(*counters(), DOMAIN),
        raising(ZeroDivisionError("4711")),
        scores=scores,
    )

    texts = {path.name: path.read_text() for path in (tmp_path / "internal").iterdir()}
    assert {*texts} == {"utility.json", "utility.html"}
    assert all("CONFIDENTIAL" in text for text in texts.values())
    assert not any("4711" in text for text in texts.values())
    assert "could not be made" in texts["utility.html"]
    assert json.loads(texts["utility.json"])["sets"]


@pytest.mark.parametrize("real", [0, 1, 2])
@pytest.mark.parametrize("drawn", [(), (0,), (1, 2)])
def test_the_page_of_a_file_with_almost_no_records_is_made(tmp_path, real, drawn):
    found = utility(
        ExactCounter(dataset(real, 1)), [ExactCounter(dataset(rows, 2)) for rows in drawn], DOMAIN
    )
    write_utility(tmp_path / "internal", found, PAGE)

    page = (tmp_path / "internal" / "utility.html").read_text()
    assert page.rstrip().endswith("</html>")


def test_an_internal_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "internal").write_text("a file")
    found = utility(*counters(), DOMAIN)
    with pytest.raises(StageFailed, match="could not be written"):
        write_utility(tmp_path / "internal", found, PAGE)
