"""Membership inference by the distance to the closest synthetic record.

A record that is closer to the synthetic file than most is called a member. The threshold is chosen
on one half of members and control, and the attack is judged on the other half, so that an attack
without information has advantage 0 on average. Sources: Chen, Yu, Zhang & Fritz (2020), CCS, the
attack without a reference; Yeom, Giacomelli, Fredrikson & Jha (2018), CSF, for the advantage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.lab.attacks.attack_rates import Estimate, advantage, wilson
from dp_core.lab.attacks.nearest_records import RecordDistances
from dp_core.lab.field_scores.code_values import CodeValues
from dp_core.tables.dataset import Dataset


@dataclass(frozen=True, slots=True)
class MembershipResult:
    """Success of a membership attack.

    Attributes:
        advantage: True minus false positive rate on records that did not choose the threshold.
        auc: Area under the curve of true against false positives: the probability that a member is
            closer than a record of the control, ties counting half; .5 without information.
        targets: Members and controls on which the advantage is measured.
    """

    advantage: Estimate
    auc: float
    targets: int


def distance_attack(
    members: Dataset,
    control: Dataset,
    synthetic: Dataset,
    values: CodeValues,
    *,
    rng: np.random.Generator,
) -> MembershipResult:
    """Return the success of membership inference by distance.

    Args:
        members: Records from which the synthetic ones were made; at least two.
        control: Records from which they were not; at least two.
        synthetic: The synthetic records.
        values: The ordered columns and their numbers.
        rng: Generator that halves members and control.
    """
    distances = RecordDistances(synthetic, values)
    return membership(distances.closest(members), distances.closest(control), rng=rng)


def membership(
    members: NDArray[np.float64], control: NDArray[np.float64], *, rng: np.random.Generator
) -> MembershipResult:
    """Return the success of calling those records members whose number is small.

    Args:
        members: Numbers of members, shape (n,), n > 1.
        control: Numbers of the control, shape (k,), k > 1.
        rng: Generator that halves both.
    """
    if min(members.size, control.size) < 2:
        raise ValueError("Membership inference needs two members and two controls.")
    halves = [np.array_split(rng.permutation(part), 2) for part in (members, control)]
    (learn, judge), (others, rest) = halves
    threshold = _threshold(learn, others)
    hits = [int((part <= threshold).sum()) for part in (judge, rest)]
    return MembershipResult(
        advantage(wilson(hits[0], judge.size), wilson(hits[1], rest.size)),
        _auc(members, control),
        judge.size + rest.size,
    )


def _threshold(members: NDArray[np.float64], control: NDArray[np.float64]) -> float:
    places = np.unique(np.concatenate([members, control]))
    below = [
        np.searchsorted(np.sort(part), places, side="right") / part.size
        for part in (members, control)
    ]
    return float(places[int((below[0] - below[1]).argmax())])


def _auc(members: NDArray[np.float64], control: NDArray[np.float64]) -> float:
    order = np.sort(control)
    above = control.size - np.searchsorted(order, members, side="right")
    ties = np.searchsorted(order, members, side="right") - np.searchsorted(order, members)
    return float((above + ties / 2).mean() / control.size)
