"""The file is coded by the reserved document: a fault in the process's schema changes no count."""

from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dp_core.confidential.coding import codes_in_memory, write_codes
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import StageFailed
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.document import ProtectedUnit
from dp_core.plan.reading.spec_file import load_spec
from dp_core.schema.compiled import file_document
from dp_core.schema.rules.column_rules import AtMost, ColumnRule, Units
from dp_core.schema.rules.file_rules import FileRules, file_rules
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tasks.inputs import open_input as input_module
from tasks.inputs.open_input import open_input
from tasks.run.release_run import Run
from tests.confidential_side import confidential_run, own_words, raises_inside
from tests.flows.conftest import SCHEMA, as_csv, make_project, plainly, survey
from tests.flows.linked_project import linked_project
from tests.flows.test_panel_release import opened as panel_project

pytestmark = pytest.mark.usefixtures("quick")


def persons_project(folder, home):
    """A file in which some persons have more rows than count."""
    project = make_project(folder, home)
    rows = [[f"i{number // 4}", *row[1:]] for number, row in enumerate(survey())]
    text, names = as_csv(rows).splitlines(), ["batch", *map(str, range(len(rows)))]
    more = [f"{line},{name}" for line, name in zip(text, names, strict=True)]
    (folder / "town.csv").write_text("\n".join(more) + "\n")
    schema = SCHEMA.replace("unit: row", "unit: {column: interview, max_rows: 3}")
    schema = schema.replace("ignore: [interview]", "ignore: [batch]")
    schema = schema.replace('{age: "<15"', '{age: ">=40"').replace(
        "missing: level}\n  income", "missing: level, out_of_range: missing}\n  income"
    )
    (folder / "town.schema.yaml").write_text(schema)
    project.open_account(
        "people", unit="person", terms=Terms("basic", Fraction(2), Fraction("1e-5"))
    )
    project.write_spec(account="people")
    return project


PROJECTS = {"persons": persons_project, "panel": panel_project, "households": linked_project}


def unit(**changes):
    return lambda schema: replace(schema, unit=replace(schema.unit, **changes))


def part(name, **changes):
    return lambda schema: replace(schema, **{name: replace(getattr(schema, name), **changes)})


def column(name, **changes):
    def changed(schema):
        columns = (replace(c, **changes) if c.name == name else c for c in schema.columns)
        return replace(schema, columns=tuple(columns))

    return changed


def no_rules(schema):
    return replace(schema, zeros=StructuralZeros(), stored_zeros=None, rules=())


def another_zero(schema):
    rule = Rule(("sex", "marital"), ((0,), (0, 1)), "{sex: [male], marital: [single, married]}")
    return replace(schema, zeros=StructuralZeros((rule,)), stored_zeros=None)


def another_rule(schema):
    clause = (AtMost((("age", 1),), 50),)
    rule = ColumnRule(
        text="age",
        key="rules",
        columns=("age", "marital"),
        clauses=(clause,),
        units=(Units("age"),),
    )
    return replace(schema, rules=(rule,))


def edges(*values):
    return tuple(map(Fraction, values))


FAULTS = {
    "persons": {
        "unit column": lambda s: replace(unit(identified_by="batch")(s), ignore=("interview",)),
        "row limit": unit(most=1000),
        "no unit": lambda schema: replace(schema, unit=type(schema.unit)("row")),
        "missing identifiers": unit(missing_values=("", "i0")),
        "grid edges": column("age", edges=edges(0, 5, 40, 100)),
        "domain size": column("age", edges=edges(0, 100)),
        "bounds": column("age", minimum=Fraction(20)),
        "out of range": column("marital", out_of_range="reject"),
        "missing codes": column("income", missing_values=("", "NA", "100.00")),
        "missing level": column("marital", missing="reject"),
        "levels": lambda s: column("sex", levels=s.column("sex").levels[::-1])(s),
        "order": lambda s: replace(s, columns=s.columns[::-1]),
        "fewer columns": lambda s: replace(s, columns=s.columns[1:]),
        "no rules": no_rules,
        "another zero": another_zero,
        "another rule": another_rule,
    },
    "panel": {
        "unit column": part("panel", person="sex"),
        "wave list": lambda s: part("panel", waves=s.panel.waves[::-1])(s),
        "fewer waves": lambda s: part("panel", waves=s.panel.waves[:2])(s),
        "ignored waves": lambda s: part("panel", ignore_waves=s.panel.waves[1:])(s),
        "row limit": unit(most=1000),
        "no panel": lambda s: replace(s, panel=None),
        "levels": lambda s: column("sex", levels=s.column("sex").levels[::-1])(s),
    },
    "households": {
        "link column": part("linked", link="nr", person_key="home_id"),
        "key column": part("linked", key="tenure"),
        "person key": part("linked", person_key="age"),
        "most members": part("linked", max_members=20),
        "fewest members": part("linked", min_members=0),
        "larger": part("linked", larger="clip", max_members=3),
        "unit": unit(most=20),
        "domain size": column("age", edges=edges(0, 100)),
        "no households": lambda s: replace(s, linked=None),
        "no rules": no_rules,
    },
}
CASES = [(kind, name) for kind, faults in FAULTS.items() for name in faults]


class Ended(StageFailed):
    """The test ends a release once its tables were counted."""


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}: {case[1]}")
def case(request, tmp_path, home):
    """Return a project, its spec, and a fault in its schema."""
    kind, name = request.param
    project = PROJECTS[kind](tmp_path / "work", home)
    return project, load_spec(project.spec), FAULTS[kind][name]


def right_tables(spec, folder):
    """Return the exact tables by the schema as it was read."""
    codes = codes_in_memory(open_input(spec, spec.schema, folder), spec.schema.stored)
    counter = MemoryCounter(codes)
    if spec.schema.linked is not None:
        counter = HouseholdCounter(counter, spec.schema.linked)
    return tables_of(counter, codes.domain)


def tables_of(counter, domain):
    names = domain.columns
    cliques = [(name,) for name in names] + list(combinations(names, 2))
    return {clique: table.counts for clique, table in counter.count(cliques).items()}


def test_a_fault_in_the_schema_changes_no_count_or_ends_the_release(case, tmp_path, monkeypatch):
    project, spec, fault = case
    expected, found = right_tables(spec, tmp_path / "copy"), []

    def perform(task, run, *given):
        if task.name == "identify":
            # A reader hands another schema over, after the document was reserved.
            wrong = replace(run.spec, schema=fault(run.spec.schema))
            monkeypatch.setattr(Run, "spec", property(lambda _: wrong))
        if task.name == "count":
            side = confidential_run(run)
            found.append(tables_of(side.counter, side.store.domain))
            raise Ended("counted")
        return plainly(task, run, *given)

    # Some faults are errors of other kinds, such as an unknown column.
    with pytest.raises(Exception) as ended:  # noqa: PT011
        project.release(perform=perform)

    assert "charge" not in project.kinds()
    assert (ended.type is Ended) == bool(found)
    for tables in found:
        assert tables.keys() == expected.keys()
        assert all(np.array_equal(tables[clique], expected[clique]) for clique in expected)


def test_codes_made_by_another_schema_are_not_read(case, tmp_path):
    """A reader codes the file by a schema of its own, where the release looks for its codes."""
    project, spec, fault = case
    wrong, read = fault(spec.schema), []

    def perform(task, run, *given):
        if task.name == "count":
            side = confidential_run(run)
            assert side.stored.rows
            try:
                write_codes(open_input(spec, wrong, tmp_path / "copy"), wrong.stored, side.codes)
            except Exception:  # its own rules refuse the file, or name other columns
                raise Ended("refused") from None
            read.append(side.stored)
        return plainly(task, run, *given)

    with pytest.raises(StageFailed) as ended:
        project.release(perform=perform)

    assert ended.type is Ended or "was made" in own_words(ended.value)
    assert not read
    assert "charge" not in project.kinds()


@pytest.mark.parametrize(
    "privacy", [{"neighbours": "replace-one"}, {"protects": ProtectedUnit("row")}], ids=repr
)
def test_a_fault_in_the_guarantee_changes_no_relation(tmp_path, home, monkeypatch, privacy):
    project, relations = persons_project(tmp_path / "work", home), []
    right = load_spec(project.spec).privacy.relation

    def perform(task, run, *given):
        if task.name == "identify":
            wrong = replace(run.spec, privacy=replace(run.spec.privacy, **privacy))
            assert wrong.privacy.relation != right
            monkeypatch.setattr(Run, "spec", property(lambda _: wrong))
        if task.name == "count":
            relations.append(confidential_run(run).relation)
            raise Ended("counted")
        return plainly(task, run, *given)

    with pytest.raises(StageFailed) as ended:
        project.release(perform=perform)

    assert relations == [right] or "another document" in own_words(ended.value)
    assert "charge" not in project.kinds()


def test_no_rule_of_a_document_can_be_exchanged_alone(tmp_path, home):
    rules = file_rules(load_spec(persons_project(tmp_path / "work", home).spec).schema)

    with pytest.raises(ValueError, match="document"):
        replace(rules, unit=replace(rules.unit, most=1000))
    with pytest.raises(FrozenInstanceError):
        rules.unit = replace(rules.unit, most=1000)


def test_records_made_by_other_rules_are_not_coded(tmp_path, home, monkeypatch):
    project = panel_project(tmp_path / "work", home)
    joined = input_module.joined_source

    def by_other_rules(_rules, parts, folder):
        document = file_document(load_spec(project.spec).schema)
        document["records"]["disagreeing"] = "reject"
        return joined(FileRules(document), parts, folder)

    monkeypatch.setattr(input_module, "joined_source", by_other_rules)

    with raises_inside(StageFailed, match="other rules"):
        project.release()
    assert "charge" not in project.kinds()
