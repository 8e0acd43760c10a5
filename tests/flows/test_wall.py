"""The wall: nothing outside the confidential and internal folders depends on the data."""

import json
import sqlite3
import uuid
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_core.errors import Held, ReleaseError
from dp_core.tables.sparse_cells import sparse_result
from dp_core.wall import curator
from dp_core.wall.accounting.composition import Terms
from dp_core.wall.ledger import entries
from flows.cli.actions import publication_decisions
from tasks.ledger.database import transaction as rows_module
from tasks.stages import stage_task as stage_module
from tests.flows.conftest import make_project, plainly, survey
from tests.full import some

CLIQUES = "{cliques: [[age, marital], [sex, income]]}"
CANARY_TEXT, CANARY_NUMBER = "zqxcanary", "917.31"

EXCEPTIONS = {
    # The only files outside confidential/ and internal/ that may differ, and why.
    "input.key": "random, mode 0600; never leaves the confidential side",
    "ledger.db": "its entry `input` holds the keyed hash of the input, its charges have keys made"
    " from it; compared entry by entry without these",
}
HIDDEN = {"input": ("about", "body", "hash"), "charge": ("key",)}


@pytest.fixture
def frozen(monkeypatch):
    """Equal noisy values whatever the data, at one moment, in one ledger, with one salt.

    Links are hashes of all before them, so they depend on the input's hash, hidden by random salts
    (tested below). Here both are left out of them: nothing else of the data may be in a link.
    """

    def noisy(exact, grant):
        values = np.random.default_rng(grant.number).integers(0, 40, size=grant.step.shape)
        assert values.shape == exact.shape
        return values.astype(np.int64)

    def chosen(exact, grant):
        return grant.number % len(exact)

    def kept(_cells, _counts, sizes, grant):
        cells = np.array([[0] * len(sizes), [size - 1 for size in sizes]], dtype=np.uint16)
        values = np.array([90 + grant.number, 70])
        return sparse_result(cells, values, sizes, grant.step.shape[0])

    def drawn(_tables, _others, _sweeps, grant):
        # Two codes, so that there is no other than the column has.
        rng = np.random.default_rng(grant.number)
        return rng.integers(0, 2, size=grant.step.shape, dtype=np.int64)

    def of_cells(_cells, _counts, sizes, grant):
        rng = np.random.default_rng(grant.number)
        return rng.integers(0, sizes, size=grant.step.shape, dtype=np.int64)

    monkeypatch.setattr(curator.granted_noise, "add", noisy)
    monkeypatch.setattr(curator.granted_noise, "choose", chosen)
    monkeypatch.setattr(curator.stability, "release", kept)
    monkeypatch.setattr(curator.perturbed_draws, "draw", drawn)
    monkeypatch.setattr(curator.drawn_cells, "draw", of_cells)
    monkeypatch.setattr(rows_module, "now", lambda: "2026-11-20T12:00:00+00:00")
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))
    make_entry, entry_link = rows_module.make_entry, entries.entry_link

    def unsalted(receipt, **values):
        return make_entry(receipt, **{**values, "salt": "0" * 32})

    def blind(entry, previous):
        if entry.kind == "input":
            entry = replace(entry, about=None, receipt=replace(entry.receipt, hash=""))
        if entry.kind == "charge":
            entry = replace(entry, key=None)
        return entry_link(entry, previous)

    monkeypatch.setattr(rows_module, "make_entry", unsalted)
    monkeypatch.setattr(entries, "entry_link", blind)


def rows_of(path, table):
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        return [dict(row) for row in found]


def input_of(path):
    """Return the keyed hash and the seal of the one input in a ledger."""
    (entry,) = [row for row in rows_of(path, "entries") if row["kind"] == "input"]
    return entry["about"], json.loads(entry["body"])["seal"]


def without_input(path):
    """Return entries and totals, without what is of the input in them."""
    found = rows_of(path, "entries")
    for entry in found:
        entry.update(dict.fromkeys(HIDDEN.get(entry["kind"], ())))
    return found + rows_of(path, "totals")


def outside(folder):
    """Return every file below a folder that a person without clearance may see, with content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_dir() or {"confidential", "internal"} & set(parts) or parts[0] == "work":
            continue
        name = path.relative_to(folder).as_posix()
        if path.name == "ledger.db":
            found[name] = without_input(path)
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
    terms = Terms("basic", Fraction(4), Fraction("1e-5"))
    project.open_account("people", neighbours=neighbours, terms=terms)
    (project.folder / "town.csv").write_text(as_csv(rows))
    project.write_spec(
        privacy=f"{{epsilon: 1, delta: 1e-6, neighbours: {neighbours}}}",
        method=method,
        account="people",
        **extra,
    )
    try:
        project.release(place / "bundle")
    except Held:
        by = {"by": "Ana", "reason": "test"}
        publication_decisions.look(project.home, project.ledger(), "town", **by)
        publication_decisions.publish(project.home, project.ledger(), "town", out=None, **by)
    return project


BOTH = ("add-remove", "replace-one")
GATE = {
    "checks": "{share: 0.2, tables: [[sex, age], [marital]],"
    " thresholds: [{figure: worst_tvd, hold: 0.0001}, {figure: fit, hold: 0.0001}]}",
    "publish": "after-approval",
}
RELEASES = [
    ("independent", {"synthesize": "{sets: 2}"}, BOTH[:1]),
    ("fdh", {}, BOTH[1:]),
    ("fixed", {"select": CLIQUES}, BOTH[1:]),
    ("privsyn", {"synthesize": "{sets: 2, mode: split}"}, BOTH),
    ("privsyn", {"synthesize": "{sets: 2}", **GATE}, BOTH),
    ("modips", GATE, BOTH[:1]),
    ("cipher", {}, BOTH[:1]),
    ("mwem", {"select": "{picks: 4}", "synthesize": "{sets: 2, mode: split}"}, BOTH[:1]),
    ("mst", {}, BOTH[1:]),
    ("aim", {"synthesize": "{sets: 2, mode: split}"}, BOTH[:1]),
    ("mwem-pgm", {}, BOTH[1:]),
    ("privbayes", {"select": "{score: mi}"}, BOTH[1:]),
    ("dualquery", {"select": "{records: 5, samples: 2}"}, BOTH[:1]),
    ("sba", {}, BOTH[:1]),
    ("sbhg", {}, BOTH[1:]),
    ("pegs", {"select": "{records: 20}"}, BOTH[:1]),
    ("fixed", {"select": CLIQUES, "synthesize": "{sets: 2, mode: noise-aware}"}, BOTH[:1]),
    ("laplace-sanitizer", {"synthesize": "{bought: 2}"}, BOTH[:1]),
    ("smoothed-histogram", {}, BOTH[:1]),
    ("multinomial-dirichlet", {"synthesize": "{sets: 2}"}, BOTH[1:]),
    ("modips", {"synthesize": "{sets: 2}"}, BOTH[1:]),
    ("slomag", {}, BOTH[:1]),
    ("average", {"synthesize": "{models: [modips, sequential_regression]}"}, BOTH[1:]),
]
KINDS = [
    # Every function of `frozen` has its turn, and every mode of the sets.
    ("privsyn", {"synthesize": "{sets: 2}", **GATE}),
    ("mwem", {"select": "{picks: 4}", "synthesize": "{sets: 2, mode: split}"}),
    ("sba", {}),
    ("pegs", {"select": "{records: 20}"}),
    ("fixed", {"select": CLIQUES, "synthesize": "{sets: 2, mode: noise-aware}"}),
    ("laplace-sanitizer", {"synthesize": "{bought: 2}"}),
    ("multinomial-dirichlet", {"synthesize": "{sets: 2}"}),
    ("average", {"synthesize": "{models: [modips, sequential_regression]}"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "extra", "neighbours"),
    some(
        ((method, extra, each) for method, extra, relations in RELEASES for each in relations),
        lambda case: case[:2] in KINDS,
    ),
)
@pytest.mark.usefixtures("frozen")
def test_neighbouring_inputs_with_equal_noisy_answers_leave_equal_files(
    tmp_path, monkeypatch, method, extra, neighbours
):
    seen = []
    for rows in (survey(), neighbour(survey(), neighbours)):
        place = tmp_path / "place"
        project = make(place, rows, method, neighbours, monkeypatch, **extra)
        seen.append((outside(place), input_of(project.home / "ledger.db")))
        place.rename(tmp_path / f"kept-{len(seen)}")

    (first, first_input), (second, second_input) = seen
    assert first_input != second_input  # the comparison is of two inputs, not of one with itself
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert {"bundle/release.json", "bundle/marginals.parquet", "home/ledger.db"} <= first.keys()


@pytest.mark.usefixtures("frozen")
def test_the_exceptions_are_the_only_files_that_hold_the_input(tmp_path, monkeypatch):
    project = make(tmp_path / "p", survey(), "independent", "add-remove", monkeypatch)
    keyed, seal = input_of(project.home / "ledger.db")
    key = (project.home / "input.key").read_bytes()
    for name, content in outside(tmp_path / "p").items():
        text = content if isinstance(content, bytes) else repr(content).encode()
        assert keyed.encode() not in text, name
        assert seal.encode() not in text, name
        assert key not in text, name
        assert key.hex().encode() not in text, name


def test_the_link_that_is_published_is_salted_and_the_salts_are_not(project):
    """Without them nobody can try inputs, or times, until the link fits."""
    project.release()
    published = json.loads((project.out / "release.json").read_bytes())["ledger"]["place"]["link"]
    found = project.ledger().entries()
    (settled,) = [entry for entry in found if entry.link == published]
    assert settled.kind == "settle"
    salts = {entry.salt for entry in found}
    assert len(salts) == len(found)
    assert {len(bytes.fromhex(salt)) for salt in salts} == {16}
    for path in [*project.out.rglob("*"), *project.run_folder.rglob("*")]:
        if path.is_file():
            content = path.read_bytes()
            assert not [salt for salt in salts if salt.encode() in content], path
            assert not [salt for salt in salts if bytes.fromhex(salt) in content], path


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
    reserve, _, settle = found = project.ledger().entries(release="town")
    assert [entry.kind for entry in found] == ["reserve", "input", "settle"]
    assert settle.reservation == reserve.position
    assert [settle.body[word] for word in ("outcome", "spent", "seen")] == ["returned", "0", False]
    # Nothing else but which ledger it is, and what its accounts allow.
    assert set(settle.body) == {"outcome", "spent", "seen", "ledger", "totals"}


def test_progress_tells_stages_and_parts_only(project):
    from flows.release import called_with

    told = []
    with called_with(lambda *what: told.append(what)):
        project.release(perform=plainly)
    assert {name for name, _ in told} == {*STAGES}
    assert all(0 <= part <= 1 for _, part in told)
