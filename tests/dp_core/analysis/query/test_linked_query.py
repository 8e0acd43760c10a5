"""Questions about households and their members, answered from noisy tables of linked tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.sources import pooled_sources
from dp_core.errors import BadInput
from dp_core.kernel.privacy import Relation
from dp_core.metrics.marginal_error import HouseholdTally
from dp_core.schema.reading.schema_file import parse_schema
from tests.linked_frames import pair_row_codes
from tests.linked_release import SCHEMA, VACANCIES, frames, with_vacant
from tests.measured import noisy_table

SIZES = np.array([1, 2, 3, 4])
SCALE = 5.0


@pytest.fixture(scope="module")
def schema():
    return parse_schema(SCHEMA)


@pytest.fixture(scope="module")
def data():
    return frames()


@pytest.fixture(scope="module")
def sources(schema, data):
    return sources_of(schema, data)


def sources_of(schema, data):
    """Return a function: the sources of exact tables that state noise of a scale."""
    tables = [pa.Table.from_pandas(data[name].astype(str)) for name in ("homes", "people")]
    pairs = pair_row_codes(schema, *tables)

    def make(*cliques, rows=None):
        tally = HouseholdTally(schema.domain, cliques)
        tally.add(pairs)
        measured = [
            noisy_table(
                schema.domain.project(clique), tally.count(clique), scale=SCALE, grant=number
            )
            for number, clique in enumerate(cliques, start=1)
        ]
        relation = Relation("add-remove", shares=schema.linked.shares)
        return pooled_sources(schema, measured, rows=rows, relation=relation)

    return make


@pytest.fixture(scope="module")
def joined(data):
    found = data["people"].merge(data["homes"], left_on="home_id", right_on="home")
    found["size"] = found.groupby("home_id")["nr"].transform("size")
    found["band"] = pd.cut(found["age"], [-1, 17, 64, 99], labels=False)
    return found


def estimates(result):
    assert result.undetermined is None, result.undetermined
    return [cell.estimate for cell in result.cells]


def test_questions_about_household_columns_count_households(sources, data):
    found = ask(sources(("tenure",)), "count by tenure")
    assert found.counted == "households"
    expected = data["homes"].groupby("tenure").size()
    assert estimates(found) == pytest.approx(expected.tolist())


def test_questions_about_person_columns_count_persons(sources, joined):
    found = ask(sources(("members", "age")), "count by age")
    assert found.counted == "persons"
    assert estimates(found) == pytest.approx(joined.groupby("band").size().tolist())


def test_household_columns_beside_person_columns_count_persons(sources, joined):
    known = sources(("tenure", "members", "age"))
    found = ask(known, "count where tenure = own and age >= 65")
    expected = ((joined["tenure"] == 1) & (joined["band"] == 2)).sum()
    assert estimates(found) == pytest.approx([expected])
    found = ask(known, "share by age where tenure = rent")
    rent = joined[joined["tenure"] == 2].groupby("band").size()
    assert estimates(found) == pytest.approx((rent / rent.sum()).tolist())


def test_a_question_may_name_the_number_of_members(sources, joined):
    known = sources(("members", "age"))
    found = ask(known, "count by age where members >= 3")
    assert estimates(found) == pytest.approx(
        joined[joined["size"] >= 3].groupby("band").size().tolist()
    )
    found = ask(known, "count by members, age")
    expected = joined.groupby(["size", "band"]).size().unstack(fill_value=0)
    assert estimates(found) == pytest.approx(expected.to_numpy().ravel().tolist())


def test_vacant_dwellings_are_households_and_add_no_persons(data, sources):
    vacant = sources_of(parse_schema(VACANCIES), with_vacant(data))
    found = ask(vacant(("members", "age")), "count by age")
    plain = ask(sources(("members", "age")), "count by age")
    assert [cell.codes for cell in found.cells] == [(0,), (1,), (2,)]
    assert estimates(found) == pytest.approx(estimates(plain))
    assert [cell.margin for cell in found.cells] == [cell.margin for cell in plain.cells]

    found = ask(vacant(("members", "age")), "count by members, age")
    assert found.cells[0].codes == (1, 0)
    found = ask(vacant(("members",)), "count by members")
    assert estimates(found)[0] == pytest.approx(100)
    found = ask(vacant(("members",)), "mean of members")
    assert estimates(found) == pytest.approx([len(data["people"]) / 500])
    found = ask(vacant(("tenure", "members")), "share of members = 0 by tenure")
    homes = with_vacant(data)["homes"]
    empty = ~homes["home"].isin(data["people"]["home_id"])
    assert estimates(found) == pytest.approx(empty.groupby(homes["tenure"]).mean().tolist())


def test_a_question_cannot_name_the_level_of_no_member(data):
    vacant = sources_of(parse_schema(VACANCIES), with_vacant(data))
    with pytest.raises(BadInput, match="no level"):
        ask(vacant(("members", "work")), "count of work = '(no member)'")


def test_the_total_of_members_is_the_number_of_persons(sources, joined):
    found = ask(sources(("members",)), "total of members")
    assert estimates(found) == pytest.approx([len(joined)])


def test_the_noise_of_persons_is_that_of_every_size_times_its_members(sources):
    found = ask(sources(("members", "age")), "count by age")
    variance = SCALE**2 * (SIZES**2).sum()
    for cell in found.cells:
        assert cell.margin == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-3)


def test_the_noise_of_households_has_steps_of_a_share(sources):
    (cell,) = ask(sources(("tenure",)), "count where tenure = own").cells
    assert cell.margin * 12 == pytest.approx(round(cell.margin * 12))
    assert cell.margin == pytest.approx(1.959964 * SCALE, abs=1 / 12)


def test_persons_are_not_determined_without_a_table_with_members(sources):
    found = ask(sources(("age",), ("members",)), "count by age")
    assert found.undetermined is not None
    assert ("members", "age") in found.undetermined.missing
    assert "households" not in found.undetermined.sentence.split("needs")[0]


def test_questions_about_another_member_name_the_file_of_noisy_tables(sources):
    with pytest.raises(BadInput, match=r"marginals\.parquet"):
        ask(sources(("age", "other.age")), "count by age, other.age")


def test_a_level_is_not_ambiguous_because_another_member_has_it(sources, joined):
    found = ask(sources(("members", "work")), "count of employed")
    assert estimates(found) == pytest.approx([(joined["work"] == 1).sum()])


def test_persons_have_no_sampling_error_because_households_are_sampled(sources):
    with pytest.raises(BadInput, match="a sample of households"):
        ask(sources(("members", "age")), "count by age", sampling=True)
    assert ask(sources(("tenure",)), "count by tenure", sampling=True).undetermined is None


def test_a_quantile_of_persons_counts_persons(sources, joined, data):
    found = ask(sources(("members", "age")), "median of age", level=0.01)
    (cell,) = found.cells
    assert found.counted == "persons"
    # At this level nearly no noise is allowed for, and the counts are exact.
    assert cell.low <= np.quantile(joined["age"], 0.5, method="inverted_cdf") <= cell.high
    assert (cell.low, cell.high) != (0, 99)
    (cell,) = ask(sources(("members",)), "median of members", level=0.01).cells
    sizes = data["people"].groupby("home_id").size()
    assert cell.low <= np.quantile(sizes, 0.5, method="inverted_cdf") <= cell.high
