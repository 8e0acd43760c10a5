"""The wall: nothing outside the confidential and internal folders depends on the data."""

import csv
import io
import json
import random
import sqlite3
import uuid
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

from dp_core.audit.configurations import (
    COLUMNS,
    PERSON,
    Configuration,
    configurations,
    planned_schema,
    schema_text,
)
from dp_core.audit.report import HOUSEHOLDS, UNITS
from dp_core.audit.tiny_files import FEMALE, MALE
from dp_core.errors import Held, ReleaseError, Unpublished
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.counting.sparse_cells import sparse_result
from dp_core.kernel.extensions import cell_draws, column_draws, thresholds
from dp_core.kernel.ledger import entries
from dp_core.kernel.mechanisms import additive_noise, private_choice
from flows.cli.actions import publication_decisions
from tasks.ledger.anchors import ledger_anchor
from tasks.ledger.database import sql_store
from tasks.ledger.database import transaction as rows_module
from tests.flows.conftest import STAGES, make_project, plainly, survey
from tests.flows.linked_project import SHARES, linked_project, write_linked_spec, write_tables
from tests.flows.linked_project import tables as linked_tables
from tests.full import some

CANARY_TEXT, CANARY_NUMBER = "zqxcanary", "917.3146289"
"""Of so many digits that times and noisy numbers hold them less than once in a million runs."""

EXCEPTIONS = {
    # The only files outside confidential/ and internal/ that may differ, and why.
    "input.key": "random, mode 0600; never leaves the confidential side",
    "ledger.db": "its entry `input` holds the keyed hash of the input, its charges have keys made"
    " from it; compared entry by entry without these",
}
PLACE = {"machine": "0" * 16, "file": 1}
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

    monkeypatch.setattr(additive_noise, "add", noisy)
    monkeypatch.setattr(private_choice, "choose", chosen)
    monkeypatch.setattr(thresholds, "release", kept)
    monkeypatch.setattr(column_draws, "draw", drawn)
    monkeypatch.setattr(cell_draws, "draw", of_cells)
    monkeypatch.setattr(sql_store, "place_of", lambda _connection: dict(PLACE))
    monkeypatch.setattr(ledger_anchor, "site_of", lambda _file: {})
    monkeypatch.setattr(rows_module, "now", lambda: "2026-11-20T12:00:00+00:00")
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))
    make_entry, entry_link = rows_module.make_entry, entries.entry_link

    def unsalted(draft, previous):
        return make_entry(replace(draft, salt="0" * 32), previous)

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


def inputs_of(path):
    """Return the keyed hash and the seal of the input in a ledger, and of each of its tables."""
    entries = [row for row in rows_of(path, "entries") if row["kind"] == "input"]
    return [(entry["about"], json.loads(entry["body"])["seal"]) for entry in entries]


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


def seen_after(tmp_path, monkeypatch, files, make):
    """Make a release of each file at the same place.

    Args:
        tmp_path: Folder for all of it.
        monkeypatch: Sets the home.
        files: What `make` is given, besides the place.
        make: Makes the release of a file at a place; returns its project.

    Returns:
        For each file what is outside afterwards, and the hashes of its inputs.
    """
    seen = []
    for file in files:
        place = tmp_path / "place"
        monkeypatch.setenv("DP_RELEASE_HOME", str(place / "home"))
        # The ledgers of all files have the same identity here, and are no copies of each other.
        monkeypatch.setenv("DP_RELEASE_STATE", str(place / "state"))
        project = make(place, file)
        seen.append((outside(place), inputs_of(project.home / "ledger.db")))
        place.rename(tmp_path / f"kept-{len(seen)}")
    return seen


def assert_alike(seen):
    """Check that the inputs differed, and that nothing outside does; return what is outside."""
    (first, first_inputs), *others = seen
    for found, inputs in others:
        assert inputs != first_inputs  # the comparison is of two inputs, not of one with itself
        assert len(inputs) == len(first_inputs)
        assert found.keys() == first.keys()
        assert [name for name in first if first[name] != found[name]] == []
    return first


FILE_COLUMNS = {
    "survey": (*COLUMNS, "stage"),
    "binary": COLUMNS,
    "single": ("sex",),
    "private": COLUMNS,
    "ruled": ("age", "marital", "income"),
}


def inhabitants(schema):
    """Return rows, as mappings: with dates, missing values, and values to clip, as it allows."""
    rng = random.Random(5)
    complete = schema == "binary"
    found = []
    for number in range(200):
        age = int(rng.expovariate(1 / 35)) - 2
        words = ["single", "married"] + ([] if complete else ["widowed", "NA"])
        missing = not complete and rng.random() < 0.1
        found.append(
            {
                PERSON: f"p{number // 2}",
                "age": str(age),
                # The first two rows belong to one person, who is replaced by another.
                "sex": rng.choice((MALE, FEMALE)) if number > 1 else MALE,
                "marital": "single" if age < 15 else rng.choice(words),
                "income": "" if missing else f"{rng.random() * 1100:.2f}",
                "moved": f"20{rng.randrange(12):02d}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}",
                "stage": "child" if age < 15 else "adult",
            }
        )
    return found


def neighbour(rows, relation):
    """Return rows that differ in one unit: in every column, beyond the bounds, above its limit."""
    new = {
        PERSON: "another",
        "age": "300",
        "sex": FEMALE,
        "marital": "married",
        "income": "5000",
        "moved": "2031-01-01",
        "stage": "adult",
    }
    more = [new] if relation.max_rows == 1 else [new, new | {"age": "20"}] * relation.max_rows
    if relation.neighbours == "add-remove":
        return [*rows, *more]
    gone = 1 if relation.max_rows == 1 else 2
    assert {row[PERSON] for row in rows[:gone]} == {"p0"}
    return [*more, *rows[gone:]]


def text_of(rows, schema, relation):
    """Return rows as a CSV file."""
    columns = [*([PERSON] if relation.max_rows > 1 else []), *FILE_COLUMNS[schema]]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [columns, *([row[column] for column in columns] for row in rows)]
    )
    return text.getvalue()


def make(place, rows, configuration, relation, schema):
    """Make a release of rows."""
    project = make_project(place / "work", place / "home")
    project.open_account(
        "people",
        neighbours=relation.neighbours,
        unit="row" if relation.max_rows == 1 else "person",
        terms=Terms("basic", Fraction(EPSILON), Fraction("1e-5")),
    )
    (project.folder / "town.csv").write_text(text_of(rows, schema, relation))
    (project.folder / "town.schema.yaml").write_text(schema_text(schema, relation))
    project.write_spec(
        privacy=f"{{epsilon: {EPSILON}, delta: 1e-6, neighbours: {relation.neighbours}}}",
        account="people",
        **({"method": configuration.method} if configuration.method else {}),
        **configuration.keys,
    )
    try:
        project.release(place / "bundle")
    except Held:
        by = {"by": "Ana", "reason": "test"}
        publication_decisions.look(project.home, project.ledger(), "town", **by)
        publication_decisions.publish(project.home, project.ledger(), "town", out=None, **by)
    except Unpublished:
        assert configuration.name == FAILING
    return project


def unit_of(configuration):
    """Return a unit of privacy, not the same for all releases, and the schema for it."""
    first = RELEASES.index(configuration)
    for number in range(len(UNITS)):
        relation = UNITS[(first + number) % len(UNITS)]
        found = planned_schema(configuration, relation, epsilon=EPSILON, delta="1e-6")
        if found is not None:
            return relation, found[0]
    raise AssertionError(f"{configuration.name} can be planned for no unit of privacy.")


EPSILON = "4"
FAILING = "checks that fail"
KINDS = (
    # Every function of `frozen` has its turn, and every kind of sets.
    "sba",
    "pegs",
    "multinomial-dirichlet",
    "tables only",
)
_TABLES = "tables: [[sex, age], [marital]]"
_HOLD = "{figure: worst_tvd, hold: 0.0001}"
TOGETHER = (
    # Every mode of the sets, and every way to end, with as much else as one release can have.
    Configuration(
        "wanted tables, declared analyses, and checks that wait",
        "auto",
        {
            "tables": "[{of: [sex, age], weight: 3, prefixes: [age]}, {of: [sex, income]}]",
            "analyses": '["income ~ age + moved", "sex ~ marital"]',
            "checks": f"{{share: 0.2, {_TABLES}, thresholds: [{_HOLD}]}}",
            "publish": "after-approval",
            "synthesize": "{sets: 2}",
        },
    ),
    Configuration(
        "split sets of private bins and levels, and charged checks",
        "privsyn",
        {"synthesize": "{sets: 2, mode: split}", "checks": f"{{share: 0.2, {_TABLES}}}"},
        schema="private",
    ),
    Configuration(
        "posterior sets with rules between columns",
        "fixed",
        {
            "select": "{cliques: [[age, marital], [marital, income]]}",
            "synthesize": "{sets: 2, mode: posterior}",
        },
        schema="ruled",
    ),
    Configuration(
        "two sets with charged checks of positions",
        "modips",
        {"synthesize": "{sets: 2}", "checks": f"{{share: 0.2, {_TABLES}}}"},
    ),
)


RELEASES = (*(each for each in configurations() if not each.linked), *TOGETHER)
LINKED = tuple(
    (configuration, relation.neighbours)
    for configuration in configurations()
    if configuration.linked
    for relation in HOUSEHOLDS
)
"""Releases of households with their members, from two tables, under both relations."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "configuration",
    some(RELEASES, lambda one: one in TOGETHER or one.name in KINDS or one.name == FAILING),
    ids=lambda configuration: configuration.name,
)
@pytest.mark.usefixtures("frozen")
def test_neighbouring_inputs_with_equal_noisy_answers_leave_equal_files(
    tmp_path, monkeypatch, configuration
):
    relation, schema = unit_of(configuration)
    rows = inhabitants(schema)
    made = partial(make, configuration=configuration, relation=relation, schema=schema)
    files = (rows, neighbour(rows, relation))
    first = assert_alike(seen_after(tmp_path, monkeypatch, files, made))
    assert "home/ledger.db" in first
    published = {"bundle/release.json", "bundle/marginals.parquet"}
    assert published & first.keys() == (set() if configuration.name == FAILING else published)


def make_linked(place, found, configuration, neighbours):
    """Make a release of two linked tables; households may be without members."""
    project = linked_project(place / "work", place / "home", neighbours=neighbours)
    write_tables(project.folder, found)
    schema = project.folder / "town.schema.yaml"
    schema.write_text(schema.read_text().replace("max_members", "min_members: 0, max_members"))
    write_linked_spec(
        project,
        privacy=f"{{epsilon: {EPSILON}, delta: 1e-6, neighbours: {neighbours}}}",
        **{key: text for key, text in configuration.keys.items() if key != "data"},
    )
    project.release(place / "bundle")
    return project


def another_household(found, neighbours, *, vacant=False):
    """Return files that differ in one household: with other values, and another number of members.

    It has no member if it is vacant. Under replace-one the first household is replaced, otherwise
    one is added at the end.
    """
    homes, people = found["homes"], found["people"]
    key = homes["home"].iloc[0] if neighbours == "replace-one" else "zz1"
    mine = people["home_id"] == key
    size = 0 if vacant else 4 if mine.sum() < 4 else 1
    home = {"home": key, "tenure": "2", "income": "3", "street": "Side street"}
    members = [
        {"home_id": key, "nr": str(number), "age": str(90 + number), "work": "2"}
        for number in range(1, size + 1)
    ]
    homes = pd.concat([homes[homes["home"] != key], pd.DataFrame([home])])
    return {"homes": homes, "people": pd.concat([people[~mine], pd.DataFrame(members)])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configuration", "neighbours"),
    some(
        LINKED,
        lambda one: (
            (one[0].name, one[1])
            in {
                ("linked tables", "add-remove"),
                ("linked tables, interactions", "replace-one"),
            }
        ),
    ),
    ids=lambda one: one if isinstance(one, str) else one.name,
)
@pytest.mark.usefixtures("frozen")
def test_files_that_differ_in_one_household_leave_equal_files(
    tmp_path, monkeypatch, configuration, neighbours
):
    def noisy(exact, grant):
        # Whole households, so that there are enough of them to draw.
        values = np.random.default_rng(grant.number).integers(0, 40, size=grant.step.shape)
        assert values.shape == exact.shape
        return SHARES * values.astype(np.int64)

    monkeypatch.setattr(additive_noise, "add", noisy)
    found = linked_tables()
    others = (another_household(found, neighbours, vacant=vacant) for vacant in (False, True))
    made = partial(make_linked, configuration=configuration, neighbours=neighbours)
    seen = seen_after(tmp_path, monkeypatch, (found, *others), made)
    first, inputs = assert_alike(seen), seen[0][1]
    assert len(inputs) == 3
    assert {"bundle/release.json", "bundle/synthetic/set-1/people.parquet"} <= first.keys()


def degenerate(rows, relation):
    """Return files as different as data may be; under replace-one, with as many units each."""
    found = [
        [rows[3] | {PERSON: row[PERSON]} for row in rows],
        [row | dict.fromkeys(("age", "marital", "income"), "NA") for row in rows],
        [row | {"age": "99", "marital": "married", "income": "0"} for row in rows],
    ]
    return [*found, rows[:1]] if relation.neighbours == "add-remove" else found


@pytest.mark.slow
@pytest.mark.parametrize(
    "configuration",
    some(
        [each for each in configurations() if each.schema in ("ruled", "private")],
        lambda configuration: configuration.name == "rules between columns, positions",
    ),
    ids=lambda configuration: configuration.name,
)
@pytest.mark.usefixtures("frozen")
def test_no_file_makes_a_stage_fail_or_take_another_path(tmp_path, monkeypatch, configuration):
    """With equal noisy answers, all files of a schema, not only neighbours, leave equal bytes."""
    relation, schema = unit_of(configuration)
    rows = inhabitants(schema)
    made = partial(make, configuration=configuration, relation=relation, schema=schema)
    files = (rows, *degenerate(rows, relation))
    assert_alike(seen_after(tmp_path, monkeypatch, files, made))


def test_what_the_test_of_the_wall_always_makes_exists():
    kept = [each for each in configurations() if each.name in (*KINDS, FAILING)]
    assert len(kept) == len(KINDS) + 1
    kept += TOGETHER
    assert {unit_of(each)[0] for each in kept} == {*UNITS}  # rows and persons, come and replaced


@pytest.mark.usefixtures("frozen")
def test_the_exceptions_are_the_only_files_that_hold_the_input(tmp_path, monkeypatch):
    (independent,) = (each for each in configurations() if each.name == "independent")
    rows = inhabitants("survey")
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "p" / "home"))
    project = make(tmp_path / "p", rows, independent, UNITS[0], "survey")
    ((keyed, seal),) = inputs_of(project.home / "ledger.db")
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
    published = project.statement()["ledger"]["place"]["link"]
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
    named = (project.internal / "message.txt").read_text()
    assert column in named
    assert column not in message
    for told in (message, named):
        assert "917" not in told.replace(str(tmp_path), "")
        assert_no_canary(tmp_path, told)
    found = project.ledger().entries(release="town")
    assert [entry.kind for entry in found] == ["reserve", "examine", "input", "verdict", "settle"]
    reserve, settle = found[0], found[-1]
    assert [dict(entry.body) for entry in (found[1], found[3])] == [{}, {"verdict": "refused"}]
    assert settle.reservation == reserve.position
    assert [settle.body[word] for word in ("outcome", "spent", "seen")] == ["returned", "0", False]
    # Nothing else but which ledger it is, what its accounts allow, and how often it was refused.
    assert set(settle.body) == {"outcome", "spent", "seen", "ledger", "totals", "attempts"}


def test_progress_tells_stages_and_parts_only(project):
    from flows.release import called_with

    told = []
    with called_with(lambda *what: told.append(what)):
        project.release(perform=plainly)
    assert {name for name, _ in told} == {*STAGES}
    assert all(0 <= part <= 1 for _, part in told)
