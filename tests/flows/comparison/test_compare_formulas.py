"""`dp-release compare --formula`: regressions on the file and on each method's sets."""

import random

import pyarrow as pa
import pytest

from dp_core.errors import BadInput
from dp_core.lab.measures.inference_agreement import Coefficient
from tests.flows.comparison.test_compare import SURE

SCHEMA = """\
version: 1
title: Small survey
rows_about: 300
columns:
  a: {type: category, levels: [x, y]}
  b: {type: category, levels: [r, s, t]}
  wage: {type: number, min: 0, max: 100, bins: 4}
"""
SPEC = """\
version: 1
release: public
data: data.csv
schema: schema.yaml
account: nobody
privacy: {epsilon: 4, delta: 1e-6}
method: fdh
synthesize: {sets: 3, mode: split}
"""


@pytest.fixture
def spec(tmp_path):
    rng = random.Random(2)
    lines = []
    for _ in range(300):
        a = rng.choice("xy")
        wage = min(max(rng.gauss(35 if a == "x" else 55, 15), 0), 100)
        lines.append(f"{a},{rng.choice('rst')},{wage:.3f}")
    (tmp_path / "data.csv").write_text("a,b,wage\n" + "\n".join(lines) + "\n")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "public.yaml").write_text(SPEC)
    return tmp_path / "public.yaml"


@pytest.mark.slow
@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
def test_the_file_is_analysed_by_its_own_values_and_the_sets_by_their_rule(
    command, spec, tmp_path, monkeypatch
):
    seen = []

    def analyse(_formula, real, sets, _schema, rule):
        seen.append((rule, real, sets))
        return [Coefficient("a", 1.0, 0.5, 1.5)], [Coefficient("a", 1.0, 0.5, 1.5)]

    monkeypatch.setattr("dp_core.lab.comparison.formula_comparison.analyse", analyse)
    words = ("--formula", "wage ~ a", "--runs", "1", "--target", "b", "--out", "out")
    assert command("compare", spec, *SURE, *words).code == 0

    own = pa.csv.read_csv(tmp_path / "data.csv")["wage"].to_pylist()
    made = [(rule, len(sets)) for rule, _, sets in seen]
    assert made == [("shared", 1), ("split", 3), ("split", 3)]
    _, real, (again,) = seen[0]
    assert real.column_names == ["a", "wage"]
    # Four fifths of the records, since a target holds out the others, and the same every time.
    assert len(real) == 240
    assert set(real["wage"].to_pylist()) <= set(own)
    assert seen[1][1].equals(real)
    assert set(again["wage"].to_pylist()) <= set(real["wage"].to_pylist())
    assert not set(seen[1][2][0]["wage"].to_pylist()) & set(own)


@pytest.mark.usefixtures("home", "quick", "ran", "unseen")
def test_what_cannot_be_fitted_is_a_sentence_below_the_table(command, spec, tmp_path, monkeypatch):
    def analyse(_formula, _real, _sets, _schema, rule):
        if rule == "split":
            raise BadInput("The level t is in no record.")
        return [Coefficient("a", 1.0, 0.5, 1.5)], [Coefficient("a", 1.0, 0.5, 1.5)]

    monkeypatch.setattr("dp_core.lab.comparison.formula_comparison.analyse", analyse)
    words = ("--formula", "wage ~ a", "--runs", "1", "--out", "out", "--json")
    answer = command("compare", spec, *SURE, *words)

    assert answer.code == 0
    row = answer.json["rows"][-1]
    assert "best" not in row["figures"]
    assert row["sentences"] == ["`wage ~ a` was not compared. The level t is in no record."]
    assert "The level t" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("wage ~ nobody", "nobody"),
        ("wage", "~"),
        ("a~" * 999, "long"),
    ],
)
@pytest.mark.usefixtures("home", "quick")
def test_a_formula_that_will_not_do_is_one_sentence(command, spec, tmp_path, formula, said):
    answer = command("compare", spec, *SURE, "--formula", formula, "--out", "out")

    assert answer.code == 2
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
