from dataclasses import replace

import numpy as np
import pytest

from dp_core.bundle.report.provenance import headline, made_from, private_choices
from dp_core.client.released import Measurement, SparseTable
from dp_core.kernel.ledger.receipts import make_receipt
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.schema.definition import Choice
from tests.measured import noisy_answers


@pytest.fixture
def published(release):
    return release[0]


def charge(number, mechanism, name):
    body = {"event": {"mechanism": mechanism}, "asks": {"name": name}}
    return make_receipt(
        number=number, kind="charge", account="a", release="r", at="", body=body, previous=""
    )


def test_tables_are_counted_without_the_number_of_records(published):
    tables = [item for item in published.released if isinstance(item, Measurement)]
    assert made_from(published) == (f"{len(tables)} noisy tables",)
    total = replace(tables[0], domain=tables[0].domain.project(()), values=np.array(3))
    both = replace(published, released=(*tables, total))
    assert made_from(both) == (f"{len(tables)} noisy tables", "the noisy number of records")
    assert headline(both) == (len(tables), "noisy tables")


def test_frequent_cells_single_numbers_choices_scores_and_draws_are_named(published):
    domain = published.schema.domain.project(("sex",))
    sparse = SparseTable(
        domain=domain,
        cells=np.array([[0], [1]], dtype=np.uint16),
        values=np.array([30, 40]),
        threshold=21,
        capacity=9,
        noise="laplace",
        scale=2.0,
        stage="measure",
        replicate=0,
        grant=2,
    )
    answers = noisy_answers(
        Cells((("sex",), ("sex",)), ((0,), (1,))),
        np.array([1, 2]),
        noise="laplace",
        scale=2.0,
        grant=3,
    )
    receipts = (
        charge(1, "noisy-max", "table-distance"),
        charge(2, "noisy-max", "indif"),
        charge(3, "discrete-laplace", "indif"),
        charge(4, "perturbed-draws", "drawn-records"),
    )
    found = made_from(replace(published, released=(sparse, sparse, answers), receipts=receipts))
    counted = ("2 single", "4 noisy cells of 2 tables", "2 private choices")
    assert [phrase.startswith(start) for phrase, start in zip(found, counted, strict=False)] == [
        True
    ] * 3
    assert "21 records" in found[1]
    assert len(found) == 5


def test_where_no_number_was_measured_the_choices_are_what_is_behind_the_sets(published):
    chosen = replace(published, released=(), receipts=(charge(1, "noisy-max", "signed"),))
    assert headline(chosen) == (1, "private choice")
    assert made_from(chosen) == ("1 private choice",)
    assert headline(replace(chosen, receipts=())) == (0, "noisy results")


def test_records_drawn_from_a_whole_table_are_named(published):
    receipts = (charge(1, "polya-urn", "drawn-cells"), charge(2, "polya-urn", "drawn-cells"))
    drawn = replace(published, released=(), receipts=receipts)
    (phrase,) = made_from(drawn)
    assert "virtual records" in phrase
    assert headline(drawn) == (2, "noisy results")


@pytest.mark.parametrize(
    ("spec", "spread"),
    [
        ({"select": {"method": "densemarg"}}, True),
        ({"synthesize": {"method": "laplace_sanitizer", "bins": 3}}, True),
        ({"synthesize": {"method": "multinomial_dirichlet", "bins": None}}, True),
        ({"synthesize": {"method": "modips"}}, False),
        ({"synthesize": {"method": "average", "models": ["modips", "slomag"]}}, False),
        ({"synthesize": {"method": "average", "models": ["modips", "laplace_sanitizer"]}}, True),
    ],
)
def test_values_follow_the_counts_of_the_choice_where_the_method_draws_within_bins(
    published, spec, spread
):
    sex, age, *others = published.schema.columns
    bins = Choice(among=age, codes=tuple(range(1, age.bins)), pieces=((0, 1000),))
    columns = (sex, replace(age, choice=bins), *others)
    made = replace(
        published,
        schema=replace(published.schema, columns=columns),
        plan={**published.plan, "spec": spec},
    )
    found = private_choices(made)
    assert found is not None
    assert (found.bins, found.spread) == (("age",), spread)
