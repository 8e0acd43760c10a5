"""One set of possible cells decides what every file answers alike, and what shares add up over."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dp_core.analysis.query.answering import ask
from dp_core.errors import BadInput
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.possible_cells import (
    impossible,
    over_possible,
    possible_boxes,
)
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.analysis.query.survey import counts_of, noisy_tables, pooled
from tests.panel_files import panel_document

FALSE_ALARM = 1e-6
LEVELS = {"type": "category", "levels": ["p", "q", "r", "s"]}
RULED = parse_schema(
    {
        "version": "1",
        "title": "Rules",
        "columns": {
            "age": {
                "type": "integer",
                "min": "0",
                "max": "99",
                "edges": ["0", "15", "30", "65", "100"],
            },
            "job": {"type": "integer", "min": "0", "max": "99", "edges": ["0", "30", "65", "100"]},
            **{name: LEVELS for name in ("a", "b", "c")},
        },
        "impossible": [
            {"age": "<15", "a": ["q", "r"]},
            {"a": "p", "b": ["p", "q"]},  # with the next one: a = p excludes c = p
            {"b": ["r", "s"], "c": "p"},
        ],
        "rules": ["job <= age"],
    }
)
PANEL = parse_schema(panel_document())


def _possible(schema, columns):
    """The possible cells, from all combinations of the codes of all columns of rules."""
    names = [n for n in schema.domain.columns if any(n in r.columns for r in schema.zeros.rules)]
    mask = ~schema.zeros.mask(schema.domain.project(names))
    others = tuple(axis for axis, name in enumerate(names) if name not in columns)
    return mask.any(axis=others)


@pytest.mark.parametrize("columns", [*itertools.combinations(RULED.domain.columns, 2)])
def test_the_boxes_are_the_possible_cells_each_once(columns):
    sizes = RULED.domain.project(columns).sizes
    cells = Functionals(columns, tuple(np.eye(size) for size in sizes))
    boxes = possible_boxes(RULED, columns)
    found = sum(np.multiply.outer(*(each[0] for each in box.weights)) for box in boxes)
    assert (found == _possible(RULED, columns)).all()
    assert (impossible(cells, boxes) == ~_possible(RULED, columns)).all()
    parts = over_possible(cells, boxes)
    assert all(each.any() for part in parts for each in part.weights)


ALIKE = {
    "share by a where age < 15 and a in (p, q)": RULED,
    "share of c = p where a = p": RULED,  # by a column that the question does not name
    "share of job < 30 where age < 30": RULED,  # by a rule between columns
    "share of in_2024 = yes where income_2024 >= 0": PANEL,
    "share of work_2024 = employed where in_2024 = no": PANEL,
    "mean of income_2024 where in_2024 = no": PANEL,
}


@pytest.mark.parametrize("text", ALIKE)
def test_a_question_that_the_rules_answer_is_refused(text):
    with pytest.raises(BadInput, match=r"every file|no record"):
        ask(pooled(ALIKE[text], []), text)


def _file():
    rng, size = np.random.default_rng(5), 3000
    domain = RULED.domain
    codes = {n: rng.integers(0, s, size) for n, s in zip(domain.columns, domain.sizes, strict=True)}
    bad = np.ones(size, dtype=bool)
    while bad.any():
        for name, most in zip(domain.columns, domain.sizes, strict=True):
            codes[name][bad] = rng.integers(0, most, bad.sum())
        bad = np.zeros(size, dtype=bool)
        for rule in RULED.zeros.rules:
            pairs = zip(rule.columns, rule.codes, strict=True)
            bad |= np.logical_and.reduce([np.isin(codes[name], own) for name, own in pairs])
    return codes


FILE = _file()
TABLES = (("age", "a"), ("age",), ("age", "job"))
SHARES = ("share by a where age < 15", "share by a where age < 30", "share of job by age")


def _release(noise, scale, rng=None):
    tables = noisy_tables(RULED.domain, FILE, TABLES, noise=noise, scale=scale, rng=rng)
    return pooled(RULED, tables)


@pytest.mark.parametrize("text", SHARES)
def test_shares_of_the_possible_cells_add_up_to_all(text):
    result = ask(_release("laplace", 15, np.random.default_rng(1)), text)
    sums: dict[tuple[int, ...], float] = {}
    for cell in result.cells:
        sums[cell.codes[1:]] = sums.get(cell.codes[1:], 0.0) + cell.estimate
    assert [*sums.values()] == pytest.approx([1.0] * len(sums))
    if "by age" in text:  # job < 30 is certain where age < 30
        fixed = {cell.codes: cell for cell in result.cells}
        assert (fixed[0, 0].low, fixed[0, 0].high, fixed[2, 1].high) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_over_possible_cells_cover_the_file(noise):
    rng = np.random.default_rng(2)
    truth = {text: ask(_release(noise, 1e-7), text).cells for text in SHARES}
    assert truth[SHARES[0]][0].estimate == pytest.approx(
        counts_of(RULED.domain, FILE, ("age", "a"))[0, 0] / (FILE["age"] == 0).sum()
    )
    covered: dict[tuple[object, ...], int] = {}
    for _ in range(200):
        release = _release(noise, 15, rng)
        for text in SHARES:
            for cell, exact in zip(ask(release, text).cells, truth[text], strict=True):
                inside = cell.low - 1e-9 <= exact.estimate <= cell.high + 1e-9
                covered[text, cell.codes] = covered.get((text, cell.codes), 0) + inside
    least = stats.binom.ppf(FALSE_ALARM, 200, 0.95)
    assert all(count >= least for count in covered.values()), covered
