"""What a whole person of k rows costs where the domain is chosen, sets are checked, rows left out.

Each charge is what the formula says. No more is told of a person with many rows than it pays for;
the same audit with rows above the limit kept finds more.
"""

from __future__ import annotations

import csv
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential import coding
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.confidential.source import open_source
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.methods.private_domain.questions import ask
from dp_core.schema.reading.schema_file import parse_schema
from tests.distributions.audited_files import Column
from tests.full import RELATIONS_OF_AUDITS, some
from tests.statistical import epsilon_at_least

KS = (1, 2, 5)
RELATIONS = ("add-remove", "replace-one")
BOUNDS = {  # L1 and squared L2 of one table of counts, by a person of k rows
    "add-remove": lambda k: (k, k**2),
    "replace-one": lambda k: (2 * k, 2 * k**2),
}
LEVELS = 3000


def schema_of(column):
    return parse_schema({"version": "1", "title": "t", "columns": {"x": column}})


TREE = {"type": "integer", "min": "0", "max": "4095", "bins": {"private": "4"}}
CODES = {
    "type": "category",
    "levels": {"private": "3"},
    "groups": {
        "one": [f"a{number}" for number in range(LEVELS // 2)],
        "two": [f"b{number}" for number in range(LEVELS // 2)],
    },
}


def answers(column, counts, currency, relation):
    """Return the noisy counts of the stage `domain`, coarsest first, and what was charged."""
    schema = schema_of(column)
    session = MemorySession(currency, relation.neighbours, max_rows=relation.max_rows)
    curator = Curator(Kernel(schema.stored.domain, Column(counts), session))
    return ask(curator, schema, currency.limit), session.charges


def checked(counts, reference, tables, currency, relation):
    """Return the noisy distances of so many equal tables, and what was charged."""
    session = MemorySession(currency, relation.neighbours, max_rows=relation.max_rows)
    curator = Curator(Kernel(Domain(("x",), (len(counts),)), Column(counts), session))
    statistic = TableChecks((("x",),) * tables, (np.array(reference, np.int64),) * tables)
    figures = curator.check("distances", statistic, currency.limit)
    return np.array([figure.distance for figure in figures]), session.charges


# -- charges


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("what", ["tree", "levels", "checks"])
def test_a_charge_is_what_the_formula_says(what, kind, neighbours, k):
    currency, relation = Currency(kind, Fraction(1, 2)), Relation(neighbours, k)
    l1, l2_squared = BOUNDS[neighbours](k)
    if what == "checks":
        # Of 7 tables at once: each distance moves by the L1 norm of its table.
        _, charges = checked([3, 4], [0, 9], 7, currency, relation)
        l1, l2_squared = 7 * l1, 7 * l1**2
    else:
        column, size = (TREE, 4096) if what == "tree" else (CODES, LEVELS)
        _, charges = answers(column, np.zeros(size), currency, relation)
    assert len(charges) == {"tree": 3, "levels": 1, "checks": 1}[what]
    for grant in charges:
        event, cost = grant.step.event, grant.step.cost
        assert cost == currency.limit / len(charges)
        assert grant.step.stage == ("checks" if what == "checks" else "domain")
        scale = float(event.scale)
        if kind == "pure":
            assert event.l1_sensitivity == l1
            assert scale == pytest.approx(l1 / float(cost), rel=1e-9)
        else:
            assert event.l2_sensitivity_squared == l2_squared
            assert scale**2 == pytest.approx(l2_squared / (2 * float(cost)), rel=1e-9)
        assert currency.cost(event) <= cost


# -- audits: of a person of five rows


K = 5


@pytest.mark.statistical
@pytest.mark.parametrize("kept", some(["at most k", "all"], lambda what: what == "at most k"))
@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
def test_of_a_person_with_many_rows_no_more_is_told_than_of_k(
    neighbours, kept, tmp_path, monkeypatch
):
    """From the file on: a person for each experiment, who has three times as many rows as count."""
    if kept == "all":
        monkeypatch.setattr(coding.RowLimit, "kept", lambda self: np.ones(self.rows, np.bool_))
    experiments = 2500
    column = {"type": "integer", "min": "0", "max": str(2 * experiments - 1)}
    column["bins"] = str(2 * experiments)
    unit = {"column": "id", "max_rows": str(K)}
    schema = parse_schema({"version": "1", "title": "t", "unit": unit, "columns": {"x": column}})

    def noisy(name, place):
        """Return noisy counts of a file; `place` is where each person's rows are, if anywhere."""
        path = tmp_path / f"{name}.csv"
        rows = [(f"other-{number}", number) for number in range(2 * experiments)]
        if place is not None:
            persons = np.repeat(np.arange(experiments), 3 * K)
            rows += [(f"person-{number}", 2 * number + place) for number in persons]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("id", "x"), *rows])
        source = open_source(path.name, tmp_path, schema.reads, schema.ignore)
        store = coding.write_codes(source, schema, tmp_path / name)
        codes = np.concatenate([store.codes(chunk) for chunk in range(store.chunks)], axis=1)
        session = MemorySession(
            Currency("pure", Fraction(1)), neighbours, max_rows=schema.unit.max_rows
        )
        curator = Curator(
            Kernel(schema.domain, MemoryCounter(Dataset(schema.domain, codes)), session)
        )
        (table,) = curator.measure("measure", [("x",)], [Fraction(1)])
        return table.values.reshape(experiments, 2)

    happened = []
    for name, place in (("with", 0), ("without", None if neighbours == "add-remove" else 1)):
        table = noisy(name, place)
        event = table[:, 0] >= 1 + K
        if neighbours == "replace-one":
            event &= table[:, 1] <= 1
        happened.append(event)
    bound = epsilon_at_least(*happened)
    assert bound > 1 if kept == "all" else 0 < bound <= 1
