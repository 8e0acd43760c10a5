import json
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import pytest

from dp_core.errors import BadInput, Fault
from dp_core.kernel.canonical import digest
from dp_core.methods import registry
from dp_core.methods.reconstruction.reconstructor import TABLES
from dp_core.methods.selection.selector import PlannedSelector, Selection, Selector
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.spec_file import load_spec
from dp_core.plan.release_spec import convert
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import load_schema
from dp_core.text.documents.strict_yaml import parse
from tests import specs

SCHEMA = """\
version: 1
title: Survey
columns:
  age: {type: integer, min: 0, max: 9}
  sex: {type: category, levels: [f, m]}
  pay: {type: number, min: 0, max: 10, bins: 4}
"""

SPEC = """\
version: 1
release: rand-2026q4
data: data/rand-*.parquet
schema: rand.schema.yaml
account: rand
privacy: {epsilon: 1.0, delta: 1.0e-9, neighbours: add-remove}
method: privsyn
select:      {method: choosy, share: 0.1}
measure:     {share: 0.8}
reconstruct: {method: small}
synthesize:  {sets: 5, rows: same, mode: shared, seed: 7}
checks:      {share: 0.0}
"""

LEAST = """\
version: 1
release: r
data: d.csv
schema: rand.schema.yaml
account: a
privacy: {epsilon: 1}
"""


@dataclass(frozen=True, kw_only=True)
class Choosy(Selector):
    """A selector that looks at the data, with an option of every type."""

    cells: int = 100
    weight: float = 0.5
    part: Fraction = Fraction(1, 3)
    strict: bool = True
    note: str = ""
    order: Literal["size", "score"] = "size"
    limit: int | None = None
    grid: int | Literal["auto"] = "auto"
    cliques: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self):
        if self.cells < 1:
            raise ValueError("cells must be at least 1.")

    def select(self, curator, known, **rest):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Small:
    """A reconstruction for small domains that needs one option."""

    takes: ClassVar = TABLES

    rounds: int
    max_cells: int = 10**6

    def check(self, domain):
        if domain.size() > self.max_cells:
            raise BadInput("The joint table is too large; use fewer columns.")


@dataclass(frozen=True, kw_only=True)
class Easy(Small):
    rounds: int = 3


@dataclass(frozen=True, kw_only=True)
class Plain(PlannedSelector):
    """A selector that does not look at the data."""

    def fixed_selection(self, domain):  # noqa: ARG002
        return Selection()


@dataclass(frozen=True, kw_only=True)
class Answering(Plain):
    """A selector of single numbers, which few reconstructions can use."""

    @property
    def gives(self):
        return frozenset({"answers"})


METHODS = {
    "choosy": Choosy,
    "small": Easy,
    "needy": Small,
    "plain": Plain,
    "answering": Answering,
    "densemarg": Choosy,
    "gum": Easy,
    "full": Plain,
    "dense": Easy,
}
# The name of a method is that of its module.
METHODS = {name: type(name, (method,), {"__module__": name}) for name, method in METHODS.items()}


@pytest.fixture(autouse=True)
def methods(monkeypatch):
    known = registry.find

    def find(family, name):
        if name == "auto":
            return Choosy if family == "selection" else Easy
        return METHODS[name] if name in METHODS else known(family, name)

    monkeypatch.setattr(registry, "find", find)


@pytest.fixture
def write(tmp_path):
    (tmp_path / "rand.schema.yaml").write_text(SCHEMA)

    def write_spec(text):
        (tmp_path / "release.yaml").write_text(text)
        return tmp_path / "release.yaml"

    return write_spec


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


def test_the_whole_spec_is_read(write, tmp_path):
    spec = load_spec(write(SPEC))

    assert (spec.release, spec.account, spec.method) == ("rand-2026q4", "rand", "privsyn")
    assert (spec.data, spec.folder) == ("data/rand-*.parquet", tmp_path)
    assert spec.schema == load_schema(tmp_path / "rand.schema.yaml")
    assert spec.privacy.epsilon == 1
    assert spec.privacy.delta == Fraction(1, 10**9)
    assert spec.privacy.neighbours == "add-remove"
    assert (spec.noise, spec.sets, spec.rows) == ("auto", 5, None)
    assert (spec.mode, spec.seed) == ("shared", 7)
    assert spec.selector == METHODS["choosy"]()
    assert spec.reconstructor == METHODS["small"]()
    assert spec.shares == {
        "total": 0,
        "one_way": Fraction(1, 10),
        "select": Fraction(1, 10),
        "measure": Fraction(8, 10),
        "checks": 0,
    }


def test_what_is_left_out_has_a_default(write):
    spec = load_spec(write(LEAST))

    assert (spec.method, spec.sets, spec.rows) == ("auto", 1, None)
    assert (spec.mode, spec.seed) == ("shared", 1)
    assert (spec.privacy.delta, spec.privacy.neighbours) == (0, "add-remove")
    assert spec.shares == {"total": 0, "checks": 0, **PRESETS["auto"].shares}


def test_a_selector_that_does_not_look_gets_none_of_the_budget(write):
    shares = load_spec(write(LEAST + "select: {method: plain}\n")).shares

    assert shares["select"] == 0
    preset = PRESETS["auto"].shares
    left = preset["one_way"] + preset["measure"]
    assert shares["one_way"] == preset["one_way"] / left
    assert shares["measure"] == preset["measure"] / left


def test_options_are_read_by_their_types(write):
    options = """\
select:
  method: choosy
  cells: 200
  weight: 1e-3
  part: 2/7
  strict: no
  note: no
  order: score
  limit: none
  grid: 12
  cliques: [[age, sex], [pay]]
reconstruct: {max_cells: 90}
"""
    spec = load_spec(write(LEAST + options))

    assert spec.selector == METHODS["choosy"](
        cells=200,
        weight=0.001,
        part=Fraction(2, 7),
        strict=False,
        note="no",
        order="score",
        limit=None,
        grid=12,
        cliques=(("age", "sex"), ("pay",)),
    )
    assert spec.reconstructor == Easy(max_cells=90)


def test_an_annotation_that_no_spec_can_state_is_a_defect():
    with pytest.raises(TypeError, match="cannot be stated"):
        convert(parse("x", source="f"), dict)


# ---------------------------------------------------------------- the document


def test_the_document_is_plain_exact_and_names_no_folder(write, tmp_path):
    spec = load_spec(write(SPEC))
    document = json.loads(json.dumps(spec.document))

    assert str(tmp_path) not in json.dumps(document)
    assert document["data"] == "data/rand-*.parquet"
    assert document["schema"] == {"title": "Survey", "sha256": schema_hash(spec.schema)}
    assert document["privacy"] == {
        "epsilon": "1",
        "delta": "1/1000000000",
        "neighbours": "add-remove",
        "unit": "row",
    }
    assert document["select"]["share"] == "1/10"
    assert document["select"]["part"] == "1/3"
    assert sum(Fraction(document[stage]["share"]) for stage in spec.shares) == 1
    assert "domain" not in document
    assert list(document)[:3] == ["version", "release", "data"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon: 1.0", "epsilon: 1"),
        ("epsilon: 1.0", "epsilon: 3/3"),
        ("1.0e-9", "1/1000000000"),
        (", neighbours: add-remove", ""),
        ("method: privsyn\n", "'method': 'privsyn'\n"),
        ("share: 0.8", "share: 4/5"),
        (", rows: same, mode: shared", ""),
        ("checks:      {share: 0.0}\n", "checks: {}\n"),
        ("{method: choosy,", "{method: choosy, cells: 100,"),
    ],
)
def test_two_spellings_of_one_release_have_one_hash(write, old, new):
    before = digest(load_spec(write(SPEC)).document)

    assert digest(load_spec(write(changed(SPEC, old, new))).document) == before


# ---------------------------------------------------------------- mistakes


def refused(path, faults=1) -> BadInput:
    with pytest.raises(BadInput) as caught:
        load_spec(path)
    assert caught.value.exit_code == 2
    if faults == 1:
        assert len(caught.value.message) < 400
        assert "\n" not in caught.value.message
    else:
        assert len(caught.value.faults) == faults
    return caught.value


def refusal(path) -> str:
    return refused(path).message


@pytest.mark.parametrize(
    ("old", "new", "place", "named"),
    [
        ("epsilon: 1.0", "epsilon: 0", "6 privacy.epsilon", "0"),
        ("epsilon: 1.0", "epsilon: one", "6 privacy.epsilon", "one"),
        ("epsilon: 1.0", "epsilon: 1001", "6 privacy.epsilon", "1,000"),
        ("epsilon: 1.0, ", "", "6 privacy", "epsilon"),
        ("epsilon: 1.0, ", "epsilom: 1, ", "6 privacy", "epsilon"),
        ("delta: 1.0e-9", "delta: 1", "6 privacy.delta", "1"),
        ("delta: 1.0e-9", "delta: -1e-9", "6 privacy.delta", "0"),
        ("neighbours:", "neighbors:", "6 privacy", "neighbours"),
        ("add-remove", "add_remove", "6 privacy.neighbours", "add-remove"),
        ("privacy: {epsilon: 1.0,", "privacy: [epsilon: 1.0,", "6", ""),
        (
            "privacy: {epsilon: 1.0, delta: 1.0e-9, neighbours: add-remove}",
            "privacy: 1.0",
            "6 privacy",
            "1.0",
        ),
        (
            "privacy: {epsilon: 1.0, delta: 1.0e-9, neighbours: add-remove}",
            "epsilon: 1.0",
            "6",
            "epsilon",
        ),
        ("privacy: {epsilon: 1.0, delta: 1.0e-9, neighbours: add-remove}\n", "", "1", "privacy"),
        ("version: 1", "version: 2", "1 version", "1"),
        ("version: 1\n", "", "1", "version"),
        ("method: privsyn", "methd: privsyn", "7", "methd method"),
        ("method: privsyn", "method: privsin", "7 method", "privsyn"),
        ("method: privsyn", "method: [privsyn]", "7 method", ""),
        ("method: privsyn", "\tmethod: privsyn", "7", "tab"),
        ("rand-2026q4", "../rand", "2 release", ""),
        ("account: rand", "account: a/b", "5 account", ""),
        ("data: data/", "data: ~/data/", "3 data", "~"),
        ("data: data/", "data: ftp://bucket/", "3 data", "URL"),
        ("data: data/rand-*.parquet", "data: s3://bucket/", "3 data", ""),
        ("rand.schema.yaml", "~/x.yaml", "4 schema", "~"),
        ("rand.schema.yaml", "rnd.schema.yaml", "4 schema", "rand.schema.yaml"),
        (
            "checks:      {share: 0.0}",
            "checks: {share: 0.1, tables: [[nope]]}",
            "12 checks.tables[1]",
            "nope age",
        ),
        ("share: 0.8", "share: 1.5", "9 measure.share", "1"),
        ("{share: 0.8}", "{share: 0}", "9 measure", "1/10"),
        ("{method: choosy, share: 0.1}", "{method: choosy, share: 0}", "8 select", "choosy"),
        (
            "{method: choosy, share: 0.1}",
            "{method: plain, share: 0.1}",
            "8 select.share",
            "0 plain",
        ),
        ("{method: choosy, share: 0.1}", "choosy", "8 select", ""),
        ("{method: choosy, share: 0.1}", "{method: chosy}", "8 select.method", "chosy"),
        ("{method: choosy,", "{method: choosy, cell: 3,", "8 select", "cell cells"),
        ("{method: choosy,", "{method: choosy, cells: many,", "8 select.cells", ""),
        ("{method: choosy,", "{method: choosy, cells: 0,", "8 select.cells", "1"),
        ("{method: choosy,", "{method: choosy, order: sise,", "8 select.order", "size"),
        ("{method: choosy,", "{method: choosy, cliques: [age, sex],", "8 select.cliques[1]", ""),
        (
            "{method: choosy,",
            "{method: choosy, cliques: [[age, sx]],",
            "8 select.cliques[1][2]",
            "sx sex",
        ),
        ("{method: small}", "{method: needy}", "10 reconstruct", "rounds"),
        ("{method: small}", "{method: small, share: 0.1}", "10 reconstruct", "share"),
        ("{method: small}", "{method: small, max_cells: 10}", "10 reconstruct", ""),
        ("{method: small}", "{}\nreconstruct: {}", "11", "reconstruct"),
        ("{share: 0.8}", "{share: 0.8, noise: gauss}", "9 measure.noise", "gaussian"),
        ("{share: 0.8}", "{share: 0.8, nois: x}", "9 measure", "noise"),
        ("sets: 5", "sets: -1", "11 synthesize.sets", "0"),
        ("sets: 5", "sets: 1001", "11 synthesize.sets", "1000"),
        ("sets: 5", "set: 5", "11 synthesize", "sets"),
        ("rows: same", "rows: all", "11 synthesize.rows", "same"),
        ("rows: same", "rows: 0", "11 synthesize.rows", "1"),
        ("mode: shared", "mode: share", "11 synthesize.mode", "shared"),
        ("seed: 7", "seed: -7", "11 synthesize.seed", "0"),
        ("synthesize:", "seed: 7\nsynthesize:", "11", "seed"),
        ("checks:  ", "total: {share: 0.01}\ntotals: {}\nchecks:  ", "13", "total"),
    ],
)
def test_a_mistake_has_the_line_and_key_of_its_place_and_names_what_is_meant(
    write, old, new, place, named
):
    (fault,) = refused(write(changed(SPEC, old, new))).faults
    assert f"{fault.line} {fault.key}".strip() == place
    assert fault.file == "release.yaml"
    assert all(word in fault.text for word in named.split())


@pytest.mark.parametrize(
    ("privacy", "text", "place", "named"),
    [
        ("", "measure: {noise: gaussian}", "7 measure.noise", "delta"),
        ("", "method: sba", "6 privacy", "sba threshold privacy.delta"),
        (", delta: 0", "method: sbhg", "6 privacy.delta", "sbhg threshold"),
        (
            ", delta: 1e-9",
            "method: sba\nmeasure: {noise: gaussian}",
            "8 measure.noise",
            "sba laplace",
        ),
        (", neighbours: replace-one", "total: {share: 0.1}", "7 total.share", "0 replace-one"),
        ("", "method: aim\nselect: {pace: 0}", "8 select.pace", "round 0"),
        ("", "method: aim\nselect: {order: 0}", "8 select.order", "columns 0"),
        ("", "select: {method: AIM}", "7 select.method", "selection 'aim'"),
        ("", "reconstruct: {method: privsyn}", "7 reconstruct.method", "'privsyn' gum"),
        ("", "select: {method: fixed}", "7 select", "cliques"),
        (
            "",
            "select: {method: answering}\nreconstruct: {method: small}",
            "8 reconstruct",
            "answering numbers small linear_program",
        ),
        (
            "",
            "total: {share: 0.2}\none_way: {share: 0.2}\nselect: {share: 0.2}\n"
            "measure: {share: 0.2}",
            "0",
            "4/5 less 1/5",
        ),
        ("", "select: {share: 0.1}\nmeasure: {share: 0.95}", "0", "21/20 more 1/10 19/20"),
    ],
)
def test_what_does_not_go_together_is_refused_in_its_place(write, privacy, text, place, named):
    error = refused(write(changed(LEAST, "1}", f"1{privacy}}}") + text + "\n"))
    (fault,) = error.faults or (Fault("release.yaml", 0, "", error.message),)
    assert f"{fault.line} {fault.key}".strip() == place
    assert all(word in fault.text for word in named.split())


@pytest.mark.parametrize(
    ("relation", "total"), [("add-remove", Fraction(1, 50)), ("replace-one", 0)]
)
def test_a_preset_brings_its_noise_and_pays_for_rows_that_are_not_public(write, relation, total):
    public = changed(LEAST, "1}", f"1, neighbours: {relation}}}")
    spec = load_spec(write(public + "method: fdh\n"))
    assert (spec.noise, spec.shares["total"], spec.shares["measure"]) == (
        "laplace",
        total,
        1 - total,
    )


def test_spec_and_schema_swapped_are_told_apart(write, tmp_path):
    path = write(changed(SPEC, "rand.schema.yaml", "release.yaml"))

    assert "release.yaml: is a release spec, not a schema" in refusal(path)
    assert "rand.schema.yaml: is a schema, not a release spec" in refusal(
        tmp_path / "rand.schema.yaml"
    )


def test_a_mistake_inside_the_schema_names_the_schema(write, tmp_path):
    path = write(SPEC)
    (tmp_path / "rand.schema.yaml").write_text(SCHEMA.replace("[f, m]", "f, m"))

    assert refusal(path).startswith("rand.schema.yaml, line 5")


def test_a_list_in_place_of_the_spec_is_refused(write):
    assert "must be a mapping" in refusal(write("- version: 1\n- release: r\n"))


def test_faults_of_every_key_and_of_the_schema_are_listed_together(write, tmp_path):
    spec = LEAST.replace(": r\n", ": r r\n").replace("account: a", "account: a a")
    path = write(spec.replace("epsilon: 1", "epsilon: one") + "method: fast\npublish: maybe\n")
    (tmp_path / "rand.schema.yaml").write_text(SCHEMA.replace("integer", "int"))
    error = refused(path, 6)
    assert [(one.file, one.line, one.key) for one in error.faults] == [
        ("release.yaml", 2, "release"),
        ("release.yaml", 5, "account"),
        ("release.yaml", 6, "privacy.epsilon"),
        ("release.yaml", 7, "method"),
        ("release.yaml", 8, "publish"),
        ("rand.schema.yaml", 4, "columns.age.type"),
    ]
    lines = error.message.splitlines()
    assert lines[0] == "release.yaml has 6 faults:"
    assert len(lines) == 7


def test_missing_keys_are_listed_unless_another_is_misspelt(write):
    error = refused(write(LEAST.replace("account: a\n", "").replace("release: r\n", "")), 2)
    assert ["'release'" in error.faults[0].text, "'account'" in error.faults[1].text] == [True] * 2
    error = refused(write(LEAST.replace("account", "acount").replace("release: r", "relase: r")), 2)
    assert [one.line for one in error.faults] == [2, 5]
    assert all("Did you mean" in one.text for one in error.faults)


def test_schema_and_data_in_each_other_s_place_are_two_faults(write):
    swapped = LEAST.replace("d.csv", "X").replace("rand.schema.yaml", "d.csv")
    error = refused(write(swapped.replace("X", "rand.schema.yaml")), 2)
    assert [(one.line, one.key) for one in error.faults] == [(3, "data"), (4, "schema")]


# ---------------------------------------------------------------- formulas for staff


def test_formulas_belong_to_the_plan_and_cost_nothing(tmp_path, monkeypatch):
    monkeypatch.undo()
    without = specs.write_spec(tmp_path)
    given = specs.write_spec(tmp_path, specs.FIXED + 'checks: {formulas: ["a ~ b", "c ~ a * b"]}\n')
    one = specs.write_spec(tmp_path, specs.FIXED + 'checks: {formulas: "a ~ b"}\n')

    assert without.formulas == ()
    assert given.formulas == ("a ~ b", "c ~ a * b")
    assert one.formulas == ("a ~ b",)
    assert "formulas" not in without.document["checks"]
    assert given.document["checks"]["formulas"] == ["a ~ b", "c ~ a * b"]
    assert make_plan(given).hash != make_plan(without).hash
    assert make_plan(given).costs == make_plan(without).costs


@pytest.mark.parametrize(
    ("formulas", "said"),
    [
        ('["a ~ nobody"]', "nobody"),
        ('["a b"]', "'~'"),
        ('["a ~ b", "a ~ b"]', "twice"),
        ('["a ~ center(b)"]', "learns from the rows"),
        (str([f"a ~ b + {number}*c" for number in range(21)]), "20"),
    ],
)
def test_a_formula_that_will_not_do_is_refused_with_its_line(tmp_path, monkeypatch, formulas, said):
    monkeypatch.undo()
    with pytest.raises(BadInput) as error:
        specs.write_spec(tmp_path, specs.FIXED + f"checks: {{formulas: {formulas}}}\n")

    assert said in error.value.message
    assert "first.yaml, line 9" in error.value.message
