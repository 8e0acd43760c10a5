"""A receipt identifies its question, however little of it decides the sensitivity."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.extensions.indif import InDif, RScore
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.questions.counting_queries import Parities
from dp_core.kernel.questions.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.kernel.questions.table_distance import TableChecks, TableDistance

DOMAIN = Domain(("a", "b", "c"), (2, 2, 2))


def whole(*numbers):
    return np.array(numbers, dtype=np.int64)


PARITIES = Parities((("a",), ("b", "c")))
CHANGES = [
    (
        TableDistance((("a",), ("b",)), (whole(1, 2), whole(3, 4)), 2, (1, 3), (5, 6)),
        {
            "cliques": (("a",), ("c",)),
            "answers": (whole(1, 2), whole(4, 3)),
            "weights": (2, 3),
            "offsets": (6, 5),
        },
    ),
    (
        TableChecks((("a",), ("b",)), (whole(1, 2), whole(3, 4))),
        {"references": (whole(1, 2), whole(3, 5))},
    ),
    (
        QueryDistance(PARITIES, whole(1, 2), 3),
        {"queries": Parities((("a",), ("b",))), "answers": whole(2, 1)},
    ),
    (
        SignedQueries(PARITIES, 4, whole(1, 2), whole(1, -1)),
        {"queries": Parities((("c",), ("b",))), "offsets": whole(2, 2), "signs": whole(1, 0)},
    ),
    (InDif((("a", "b"), ("a", "c"))), {"pairs": (("a", "b"), ("b", "c"))}),
    (RScore((("a", ("b",)),)), {"candidates": (("a", ("c",)),)}),
    (FScore((("a", ("b",)),)), {"candidates": (("b", ("a",)),)}),
    (MutualInformation((("a", ("b",)),), 9, 9), {"candidates": (("a", ("c",)),)}),
    (
        CosineTails(column="a", edges=(0, 1, 2), prices=(0, 4)),
        {"edges": (0, 1, 3), "prices": (0, 5)},
    ),
    (CutDeviations(column="a", edges=(0, 1, 2), low=0, high=2), {"edges": (0, 1, 3)}),
    (Quantile(column="a", low=0, high=5, part=1, of=2), {}),
]


@pytest.mark.parametrize(("question", "changes"), CHANGES, ids=lambda one: type(one).__name__)
def test_another_question_of_the_same_sensitivity_has_another_receipt(question, changes):
    asks = question.asks()
    canonical_json(asks)
    assert {**asks, **question.to_json()} == asks
    assert replace(question).asks() == asks
    for name, value in changes.items():
        other = replace(question, **{name: value})
        assert other.asks() != asks, name
        assert other.to_json().keys() == question.to_json().keys()


def test_equal_numbers_in_other_places_are_other_questions():
    one = TableDistance((("a", "b"),), (whole(1, 2, 3, 4),), 1, (1,), (0,))
    assert one.asks() != replace(one, answers=(whole(1, 2, 3, 4).reshape(2, 2),)).asks()
    two = Parities((("a", "b"),)), Parities((("a",), ("b",)))
    first, second = (QueryDistance(each, whole(*range(each.length)), 1).asks() for each in two)
    assert first["question"] != second["question"]


def test_what_is_stated_whole_needs_no_digest():
    counts = QueryCounts(PARITIES)
    assert counts.asks() == counts.to_json()
    assert {*counts.asks()} == {"name", *(each.name for each in fields(counts))}


def test_the_receipts_of_choices_and_of_noise_hold_the_digest():
    session = MemorySession(Currency("zcdp", Fraction(4)), "add-remove")
    data = Dataset(DOMAIN, np.zeros((3, 9), np.uint16))
    curator = Curator(Kernel(DOMAIN, MemoryCounter(data), session))
    for question, _ in CHANGES[:5]:
        curator.choose("select", f"choose {question.NAME}", question, Fraction(1, 9))
        curator.perturb("select", f"look {question.NAME}", question, Fraction(1, 9))
    stated = [grant.step.asks for grant in session.charges]
    assert stated == [question.asks() for question, _ in CHANGES[:5] for _ in range(2)]
    assert all(len(str(asks["question"])) == 64 for asks in stated)
