"""Every request of every method crosses to the confidential process, and is the same there."""

import contextlib
import json
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.audit.configurations import configurations, plan_of
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import ReleaseError
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.questions.query_scores import QueryCounts, QueryDistance
from dp_core.kernel.requests import Noisy, Tables
from dp_core.plan.procedure import ask_all
from tasks.confidential.frames import Malformed
from tasks.confidential.plain_values import (
    KEPT,
    KeptParts,
    receipt_of,
    receipt_values,
    request_of,
    request_values,
)
from tests.full import some

RELATION = Relation("replace-one", 1, 1)
RELEASES = [each for each in configurations() if not each.linked and each.asks]
TABLES = Tables(stage="measure", cliques=(("a",), ("a", "b")), costs=(Fraction(1, 3), Fraction(2)))


def crossed(request, mine, its):
    values, blocks = request_values(request, mine)
    return request_of(json.loads(canonical_json(values)), blocks, its)


@pytest.mark.parametrize(
    "release",
    some(RELEASES, lambda each: each.name in ("auto", "privsyn", "mwem", "aim", "sba", "modips")),
    ids=lambda each: each.name,
)
def test_every_request_of_a_release_is_the_same_on_the_other_side(release, monkeypatch):
    plan = plan_of(release, RELATION, epsilon="1", delta="1e-4") or plan_of(
        release, RELATION, epsilon="1", delta="0"
    )
    if plan is None:
        pytest.skip("the method takes another relation")
    answer, sides, asked = Kernel.answer, (KeptParts(), KeptParts()), []

    def across(kernel, request):
        again = crossed(request, *sides)
        here, there = request.prepare(kernel.facts), again.prepare(kernel.facts)
        assert (there.batch, list(there.steps)) == (here.batch, list(here.steps))
        found = answer(kernel, again)
        for grant, _ in found:
            receipt = receipt_of(json.loads(canonical_json(receipt_values(grant))))
            assert (receipt.number, receipt.step.event) == (grant.number, grant.step.event)
            assert canonical_json(dict(receipt.step.asks)) == canonical_json(dict(grant.step.asks))
        asked.append(request.KIND)
        return found

    monkeypatch.setattr(Kernel, "answer", across)
    domain = plan.spec.schema.stored.domain
    rng = np.random.default_rng(4)
    codes = np.stack([rng.integers(0, size, 60) for size in domain.sizes])
    counter = MemoryCounter(Dataset(domain, codes.astype(domain.code_type)))
    session = MemorySession(plan.currency, "replace-one")
    # The file may be too small for the method; what it asked before has crossed.
    with contextlib.suppress(ReleaseError):
        ask_all(plan, counter, session)
    assert asked or not plan.costs


def noisy(question, step="s"):
    return Noisy(stage="measure", questions=(question,), steps=(step,), costs=(Fraction(1),))


def test_a_large_part_of_a_question_crosses_once_while_it_is_kept():
    queries = Cells((("n",),) * 4000, tuple((number,) for number in range(4000)))
    answers = np.zeros(4000, np.int64)
    mine, its, sizes = KeptParts(), KeptParts(), []
    for number in (1, 2, 3):
        question = QueryDistance(queries, answers + number, 2)
        request = noisy(question, step=f"s{number}")
        values, blocks = request_values(request, mine)
        sizes.append(sum(each.nbytes for each in blocks.values()))
        found = request_of(values, blocks, its).questions[0]
        assert found.queries.to_json() == queries.to_json()
        assert np.array_equal(found.answers, answers + number)
    assert sizes[0] > 2 * sizes[1] == 2 * sizes[2]


def test_several_questions_cross_in_one_request():
    asked = [QueryCounts(Cells((("n",),), ((number,),))) for number in range(3)]
    costs = (Fraction(1), Fraction(1, 3), Fraction(2))
    request = Noisy(stage="measure", questions=asked, steps=("a", "b", "c"), costs=costs)
    found = crossed(request, KeptParts(), KeptParts())
    assert [each.to_json() for each in found.questions] == [each.to_json() for each in asked]
    assert (found.steps, found.costs) == (("a", "b", "c"), costs)


def test_both_sides_keep_the_same_parts_however_many_there_are():
    many = [
        Cells((("n",),) * 2000, tuple((at + number,) for at in range(2000)))
        for number in range(2 * KEPT)
    ]
    mine, its = KeptParts(), KeptParts()
    order = np.random.default_rng(2).integers(0, len(many), 200)
    for number in order:
        request = noisy(QueryCounts(many[number]))
        assert crossed(request, mine, its).questions[0].queries.to_json() == many[number].to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"ask": "rows of the file"},
        {"ask": "noisy"},
        {"stage": "publish"},
        {"replicate": True},
        {"replicate": "0"},
        {"cliques": [["a"], "b"]},
        {"cliques": [["a"], [1]]},
        {"costs": [1, 2]},
        {"costs": [{"fraction": "x"}]},
        {"more": 1},
        {"round": None},
    ],
)
def test_a_request_that_is_none_of_the_kernels_is_refused(change):
    values, blocks = request_values(TABLES, KeptParts())
    assert request_of(values, blocks, KeptParts()) == TABLES
    with pytest.raises(Malformed):
        request_of(values | change, blocks, KeptParts())


def test_a_part_that_was_not_sent_is_not_found():
    queries = Cells((("n",),) * 4000, tuple((number,) for number in range(4000)))
    request = noisy(QueryCounts(queries))
    mine = KeptParts()
    request_values(request, mine)
    with pytest.raises(Malformed):
        request_of(*request_values(request, mine), KeptParts())
