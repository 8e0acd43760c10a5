"""The wall: nothing outside the confidential and internal folders depends on the data."""

import sqlite3
import uuid
from fractions import Fraction

import numpy as np
import pytest

from dp_core import curator
from dp_core.errors import ReleaseError
from tasks import stage as stage_module
from tasks.stores import database
from tests.flows.conftest import make_project, plainly, survey

CLIQUES = "{cliques: [[age, marital], [sex, income]]}"
CANARY_TEXT, CANARY_NUMBER = "zqxcanary", "917.31"

EXCEPTIONS = {
    # The only files outside confidential/ and internal/ that may differ, and why.
    "input.key": "random, mode 0600; never leaves the confidential side",
    "ledger.db": "its table `inputs` holds the keyed hash of the input; compared table by table",
}


@pytest.fixture
def frozen(monkeypatch):
    """Equal noisy values whatever the data, at one moment, in one ledger."""

    def noisy(exact, grant):
        values = np.random.default_rng(grant.number).integers(0, 40, size=grant.step.shape)
        assert values.shape == exact.shape
        return values.astype(np.int64)

    def chosen(exact, grant):
        return grant.number % len(exact)

    monkeypatch.setattr(curator, "_add_noise", noisy)
    monkeypatch.setattr(curator.noisy_max, "choose", chosen)
    monkeypatch.setattr(database, "now", lambda: "2026-11-20T12:00:00+00:00")
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))


def rows_of(path, table):
    with sqlite3.connect(path) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def outside(folder):
    """Return every file below a folder that a person without clearance may see, with content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_dir() or {"confidential", "internal"} & set(parts) or parts[0] == "work":
            continue
        name = path.relative_to(folder).as_posix()
        if path.name == "ledger.db":
            found[name] = rows_of(path, "entries")
        elif path.name not in EXCEPTIONS:
            found[name] = path.read_bytes()
    return found


def neighbour(rows, neighbours):
    if neighbours == "add-remove":
        return [*rows, ["i999", "77", "2", "widowed", "901.50", "2009-01-01"]]
    # Another person in every column: another bin, another level.
    assert rows[0] == ["i0", "34", "1", "widowed", "942.45", "2008-01-17"]
    return [["i0", "77", "2", "single", "", "2001-01-01"], *rows[1:]]


def make(place, rows, method, neighbours, monkeypatch, **extra):
    """Make a release whose every path is the same, then move it away."""
    from tests.flows.conftest import as_csv

    monkeypatch.setenv("DP_RELEASE_HOME", str(place / "home"))
    project = make_project(place / "work", place / "home")
    project.open_account("people", neighbours=neighbours, epsilon=Fraction(4))
    (project.folder / "town.csv").write_text(as_csv(rows))
    project.write_spec(
        privacy=f"{{epsilon: 1, delta: 1e-6, neighbours: {neighbours}}}",
        method=method,
        account="people",
        **extra,
    )
    project.release(place / "bundle")
    return project


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("independent", {"synthesize": "{sets: 2}"}),
        ("fdh", {}),
        ("fixed", {"select": CLIQUES}),
        ("privsyn", {"synthesize": "{sets: 2, mode: split}"}),
    ],
)
@pytest.mark.usefixtures("frozen")
def test_neighbouring_inputs_with_equal_noisy_answers_leave_equal_files(
    tmp_path, monkeypatch, method, extra, neighbours
):
    seen = []
    for rows in (survey(), neighbour(survey(), neighbours)):
        place = tmp_path / "place"
        project = make(place, rows, method, neighbours, monkeypatch, **extra)
        seen.append((outside(place), rows_of(project.home / "ledger.db", "inputs")))
        place.rename(tmp_path / f"kept-{len(seen)}")

    (first, first_input), (second, second_input) = seen
    assert first_input != second_input  # the comparison is of two inputs, not of one with itself
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert {"bundle/release.json", "bundle/marginals.parquet", "home/ledger.db"} <= first.keys()


@pytest.mark.usefixtures("frozen")
def test_the_exceptions_are_the_only_files_that_hold_the_input(tmp_path, monkeypatch):
    project = make(tmp_path / "p", survey(), "independent", "add-remove", monkeypatch)
    ((*_, keyed, _seal),) = rows_of(project.home / "ledger.db", "inputs")
    key = (project.home / "input.key").read_bytes()
    for name, content in outside(tmp_path / "p").items():
        text = content if isinstance(content, bytes) else repr(content).encode()
        assert keyed.encode() not in text, name
        assert key not in text, name
        assert key.hex().encode() not in text, name


# -- the canary


def with_canary(rows):
    """One row holds a number nobody else has, and an ignored column holds a distinctive text."""
    age, sex, marital, _, moved = rows[7][1:]
    changed = [CANARY_TEXT, age, sex, marital, CANARY_NUMBER, moved]
    return [*rows[:7], changed, *rows[8:]]


def assert_no_canary(place, *texts):
    """Look for the canary in every byte that leaves the confidential side."""
    for path in place.rglob("*"):
        parts = path.relative_to(place).parts
        if path.is_dir() or {"confidential", "internal"} & set(parts) or path.name == "town.csv":
            continue
        content = path.read_bytes()
        assert CANARY_TEXT.encode() not in content, path
        if "synthetic" not in parts:  # which may draw any number that the schema allows
            assert CANARY_NUMBER.encode() not in content, path
    for text in texts:
        assert CANARY_TEXT not in text
        assert CANARY_NUMBER not in text


@pytest.fixture
def canary(project):
    from tests.flows.conftest import as_csv

    (project.folder / "town.csv").write_text(as_csv(with_canary(survey())))
    return project


def test_a_value_of_the_data_appears_nowhere_after_success(canary, tmp_path, capfd):
    canary.release()
    captured = capfd.readouterr()
    assert_no_canary(tmp_path, captured.out, captured.err)


STAGES = (
    "identify",
    "validate",
    "discretize",
    "count",
    "basics",
    "select",
    "measure",
    "reconstruct",
    "synthesize",
    "check",
    "publish",
)


@pytest.mark.parametrize("name", STAGES)
def test_a_value_of_the_data_appears_nowhere_after_a_failure_that_holds_it(
    canary, tmp_path, capfd, monkeypatch, name
):
    attempt = stage_module._attempt

    def failing(stage, work, run):
        def broken(run):
            work(run)
            try:
                raise KeyError(CANARY_TEXT)
            except KeyError:
                raise ValueError(f"{CANARY_TEXT} has {CANARY_NUMBER}")  # noqa: B904

        return attempt(stage, broken if stage == name else work, run)

    monkeypatch.setattr(stage_module, "_attempt", failing)
    with pytest.raises(ReleaseError) as caught:
        canary.release()

    error = caught.value
    assert error.exit_code == 4
    assert error.internal is None
    assert (error.__cause__, error.__context__) == (None, None)
    captured = capfd.readouterr()
    assert_no_canary(tmp_path, str(error), repr(error), captured.out, captured.err)
    assert CANARY_TEXT in (canary.internal / "failure.txt").read_text()


@pytest.mark.parametrize(
    ("wrong", "column"),
    [
        (["i", "31", "1", CANARY_TEXT, "1.00", "2001-01-01"], "marital"),
        (["i", "31", "1", "single", CANARY_TEXT, "2001-01-01"], "income"),
        (["i", "31", "1", "single", "91731.5", "2001-01-01"], "income"),
        (["i", "31", "1", "single", "1.00", CANARY_TEXT], "moved"),
        (["i", "3", "1", "married", "1.00", "2001-01-01"], "marital"),
    ],
)
def test_a_wrong_value_is_never_quoted_and_its_count_is_never_given(
    project, tmp_path, wrong, column
):
    from tests.flows.conftest import as_csv

    (project.folder / "town.csv").write_text(as_csv([*survey(), *[wrong] * 917]))
    with pytest.raises(ReleaseError) as caught:
        project.release()
    message = str(caught.value)
    assert column in message
    assert "917" not in message
    assert_no_canary(tmp_path, message)
    reserve, settle = project.ledger().rows(release="town")
    assert (reserve.kind, settle.kind) == ("reserve", "settle")
    assert settle.body == {
        "reservation": reserve.number,
        "outcome": "returned",
        "spent": "0",
        "epsilon": "0",
        "delta": "0",
    }


def test_progress_tells_stages_and_parts_only(project):
    from flows.release import shown

    told = []
    with shown(lambda *what: told.append(what)):
        project.release(perform=plainly)
    assert {name for name, _ in told} == {*STAGES}
    assert all(0 <= part <= 1 for _, part in told)
