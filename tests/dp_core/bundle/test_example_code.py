"""The report's code for releases of every kind."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from dp_core.bundle.files.labelled_file import level_numbers
from dp_core.bundle.report.example_code import _total, example_code, size_factor
from dp_core.bundle.report.page import report
from dp_core.bundle.report.table_precision import pools_by_set
from dp_core.inference.combine import combine
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.definition import Choice, Level
from tests.dp_core.bundle.conftest import code_of, make_published, write
from tests.measured import noisy_table, tally_sets
from tests.schema_texts import read

SCHEMA = read(
    """\
version: 1
title: Odd names
columns:
  hours per week: {type: integer, min: 0, max: 99, bins: 3}
  class: {type: ordinal, levels: [low, high]}
  rare: {type: category, levels: [a, b]}
  when: {type: date, min: 2000-01-01, max: 2001-12-31, bins: year}
"""
)


def measured(*cliques):
    sizes = dict(zip(SCHEMA.domain.columns, SCHEMA.domain.sizes, strict=True))
    found = []
    for clique in cliques:
        domain = Domain(clique, tuple(sizes[name] for name in clique))
        values = np.full(domain.sizes, 1000)
        if "rare" in clique:
            values = np.moveaxis(values, clique.index("rare"), -1)
            values[..., 1] = 2
            values = np.moveaxis(values, -1, clique.index("rare"))
        found.append(
            noisy_table(domain, values, scale=2.0)
        )  # fmt: skip
    return tuple(found)


@pytest.fixture
def odd(release):
    """A release of the odd schema; how its sets look does not matter here."""

    def make(*cliques, **changes):
        published = dataclasses.replace(
            release[0], schema=SCHEMA, released=measured(*cliques), records=300.0
        )
        return dataclasses.replace(published, **changes)

    return make


def every(code):
    """Return the code that combines estimates, in every language."""
    regressions = (code.python_regression, code.r_regression, code.stata_regression)
    return (*regressions, code.python, code.r, code.stata)


def test_names_that_are_no_words_are_quoted(odd):
    code = code_of(odd(("hours per week", "class")))

    assert code.formula == "Q('hours per week') ~ Q('class')"
    assert "smf.ols(\"Q('hours per week') ~ Q('class')\"" in code.python_regression
    assert "lm(`hours per week` ~ class," in code.r_regression
    assert "regress hours_per_week i.class\n" in code.stata_regression
    # R codes ordered factors by polynomials unless it is told otherwise.
    assert 'options(contrasts = c("contr.treatment", "contr.treatment"))' in code.r_regression


def test_rare_levels_and_dates_are_no_example(odd):
    assert code_of(odd(("hours per week", "rare", "when"))).formula == "Q('hours per week') ~ 1"
    assert code_of(odd(("hours per week", "rare", "class"))).formula.endswith("~ Q('class')")


def test_without_numbers_there_is_no_regression_and_the_page_says_the_rest(odd, release):
    only = dataclasses.replace(SCHEMA, columns=SCHEMA.columns[1:3])
    published = odd(("class",), schema=only)
    code = code_of(published)

    assert (code.formula, code.python_regression, code.r_regression) == ("", "", "")
    assert code.stata_regression == ""
    data = release[1][0].__class__(only.domain, np.zeros((2, 300), dtype=np.uint16))
    tallies = tally_sets(only.domain, published.released, [[data], [data]])
    text = report(published, tallies)
    assert "A regression" not in text
    assert "Any other estimate" in text


def test_the_rule_is_in_every_code(odd):
    for mode, total in (
        ("shared", "W + B / m"),
        ("split", "W + B / m"),
        ("posterior", "W + (1 + 1 / m) * B"),
    ):
        code = code_of(odd(("hours per week", "class"), mode=mode))
        for text in every(code):
            assert total in text
        assert ("# too small" in code.python_regression) == (mode == "shared")
        assert ("// too small" in code.stata_regression) == (mode == "shared")
        # Software for imputations has Rubin's rule, which is right for no other mode.
        assert ("mi estimate" in code.stata_regression) == (mode == "posterior")


def test_one_set_is_summarised_without_a_rule(odd):
    code = code_of(odd(("hours per week", "class"), sets=1))

    assert "B" not in code.python_regression
    assert "# one set:" in code.python_regression
    assert "# one set:" in code.r_regression
    assert "mata" not in code.stata_regression


def test_another_size_than_the_file_s_is_in_every_code(odd):
    published = odd(("hours per week", "class"), records=1003.25)
    code = code_of(published)

    assert size_factor(published.set_rows, published.records) == pytest.approx(300 / 1003.25)
    assert size_factor(published.set_rows, 310.0) == 1.0
    for text in every(code):
        assert "300 / 1003.25 * " in text
    drawn = code_of(odd(("hours per week", "class"), records=1003.25, mode="posterior"))
    assert "c = min(f.nobs for f in fits) / (300 / 1003.25) - len(Q)" in drawn.python_regression
    assert "c0 <- min(sapply(fits, nobs)) / (300 / 1003.25) - nrow(q)" in drawn.r_regression
    # Not by the columns of e(b), which has zeros for the levels of reference.
    assert "c0 = min(scalar(c0), e(N) / (300 / 1003.25) - e(rank))" in drawn.stata_regression


@pytest.mark.parametrize(
    ("mode", "column"),
    [("shared", "sex"), ("split", "age"), ("posterior", "height"), ("posterior", "born")],
)
def test_the_code_runs_as_it_stands(tmp_path, monkeypatch, capsys, mode, column):
    published, data = make_published(mode=mode, sets=3)
    folder = write(tmp_path / "out", published, data, tmp_path / "scratch")
    schema = published.schema
    shown = dataclasses.replace(schema, columns=(schema.column(column),))
    pooled, names = pools_by_set(published)[0], {}
    code = example_code(dataclasses.replace(published, schema=shown), pooled)
    monkeypatch.chdir(folder)
    exec(code.python, names)
    exec(code.python_table, {})
    inflation = 4 / 3 if mode == "posterior" else 1 / 3
    assert names["T"] == pytest.approx(names["W"] + inflation * names["B"])
    assert names["B"] == pytest.approx(np.var(names["q"], ddof=1))
    found = re.search(r"(.+), 95 % interval (.+) to (.+)", capsys.readouterr().out)
    estimate, low, high = (float(text) for text in found.groups())
    assert low <= estimate <= high


@pytest.mark.parametrize("weight", ["age", "height"])
def test_a_weight_is_in_no_example_of_a_regression(release, weight):
    published, _ = release
    columns = tuple(
        dataclasses.replace(column, role="weight") if column.name == weight else column
        for column in published.schema.columns
    )
    schema = dataclasses.replace(published.schema, columns=columns)
    assert weight not in code_of(dataclasses.replace(published, schema=schema)).formula


def assigned(code):
    """Return what each name is set to, line by line, as Python has it.

    R has V for T and c0 for c, since T and c mean something there, and ^ for **. Stata has c0 too,
    and colons before what works entry by entry.
    """
    found = []
    plain = code.replace("<-", "=").replace(":", "").replace("^2", "**2")
    for line in plain.splitlines():
        for part in re.split("#|//", line)[0].split(";"):
            names, equals, value = part.strip().partition(" = ")
            words = value.replace("c0", "c")
            names = names.replace("V", "T")
            if equals and names in ("T", "df"):
                found.append((names, re.sub(r"\bV\b", "T", words)))
    return found


@pytest.mark.parametrize("mode", ["shared", "split", "posterior"])
def test_every_language_computes_what_the_rule_says(odd, mode):
    code = code_of(odd(("hours per week", "class"), mode=mode, sets=3))
    regressions = (code.python_regression, code.r_regression, code.stata_regression)
    python, r, stata = map(assigned, regressions)

    assert python == r == stata
    assert [name for name, _ in r] == ["T", "df"]
    # Any numbers will do: what the code computes of them is what `combine` does.
    q, w = [1.0, 2.0, 4.5], [0.25, 0.5, 0.75]
    rule = combine(q, w, mode, complete_df=20.0)
    for text in (python, r, stata):
        known = {"m": 3, "c": 20.0, "W": float(np.mean(w)), "B": float(np.var(q, ddof=1))}
        for name, value in text:
            known[name] = eval(value, {}, known)
        assert known["T"] == pytest.approx(rule.variance)
        assert known["df"] == pytest.approx(rule.degrees_of_freedom)


def test_a_rule_without_code_of_its_own_gets_no_other_s():
    with pytest.raises(ValueError, match="of tomorrow"):
        _total("of tomorrow")


@pytest.mark.parametrize(("text", "command"), [("1", "regress "), ("-9", "xi: regress ")])
def test_stata_gets_no_factor_with_a_negative_level(odd, text, command):
    level = SCHEMA.column("class").levels[0]
    changed = dataclasses.replace(
        SCHEMA.column("class"),
        levels=(dataclasses.replace(level, text=text), *SCHEMA.column("class").levels[1:]),
        kind="category",
    )
    columns = tuple(changed if each.name == "class" else each for each in SCHEMA.columns)
    schema = dataclasses.replace(SCHEMA, columns=columns)
    code = code_of(odd(("hours per week", "class"), schema=schema))
    assert f"quietly {command}hours_per_week i.class" in code.stata_regression


def test_the_levels_of_the_stata_code_are_those_of_the_files(odd):
    column = SCHEMA.column("rare")
    columns = (column, *(each for each in SCHEMA.columns if each is not column))
    code = code_of(odd(("rare",), schema=dataclasses.replace(SCHEMA, columns=columns)))
    assert f"rare == {level_numbers(column)['a']}  // a" in code.stata


def test_the_level_of_the_code_is_one_that_the_sets_have(odd):
    """A private choice may group levels that are drawn again: the group is in no set."""
    rare = SCHEMA.column("rare")
    group = Choice(among=rare, groups=("all",), group_of=(0, 0), drawn=True, codes=())
    column = dataclasses.replace(rare, levels=(Level("all", "all"),), choice=group)
    columns = (column, *(each for each in SCHEMA.columns if each.name != "rare"))
    code = code_of(odd((), schema=dataclasses.replace(SCHEMA, columns=columns)))

    assert "rare == 1  // a\n" in code.stata
    assert "['rare'] == 'a'" in code.python
