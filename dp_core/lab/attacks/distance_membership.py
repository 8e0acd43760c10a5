"""Distances between records by Gower's coefficient, and membership inference by the closest one.

An ordered column contributes |a - b| over its range, and 1 if one value only is missing; any other
column contributes 1 if the levels differ. Gower (1971), Biometrics 27(4).

A record that is closer to the synthetic file than most is called a member. The threshold is chosen
on one half of members and control, and the attack is judged on the other half, so that an attack
without information has advantage 0 on average. Sources: Chen, Yu, Zhang & Fritz (2020), CCS, the
attack without a reference; Yeom, Giacomelli, Fredrikson & Jha (2018), CSF, for the advantage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.lab.attacks.attack_rates import Estimate, advantage, wilson
from dp_core.lab.field_scores.code_values import CodeValues
from dp_core.tables.dataset import Dataset

_BLOCK = 1 << 22  # distances that are in memory together


class RecordDistances:
    """Distances of records to the records of one file.

    Args:
        file: The file, not empty.
        values: The ordered columns and their numbers.
        columns: Columns that count; all by default.
    """

    def __init__(
        self, file: Dataset, values: CodeValues, columns: Sequence[str] | None = None
    ) -> None:
        self.file = file
        self.columns = file.domain.columns if columns is None else tuple(columns)
        self._tables = {name: _steps(file, values, name) for name in self.columns}

    def blocks(self, targets: Dataset) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Yield the distances of some targets at a time.

        Args:
            targets: Records of the same domain.

        Yields:
            The places of the targets, and their distances, shape (targets, records of the file).
        """
        at_once = max(1, _BLOCK // self.file.rows)
        for start in range(0, targets.rows, at_once):
            part = slice(start, min(start + at_once, targets.rows))
            found = np.zeros((part.stop - part.start, self.file.rows), dtype=np.float32)
            for name in self.columns:
                found += self.of_column(name, targets, part)
            yield part, found

    def of_column(self, name: str, targets: Dataset, part: slice) -> NDArray[np.float32]:
        """Return what one column contributes, shape (targets of the part, records of the file)."""
        rows = self._tables[name][targets.column(name)[part]]
        # One row for each code of a target, then the codes of the file.
        distances: NDArray[np.float32] = np.take(rows, self.file.column(name), axis=1)
        return distances

    def closest(self, targets: Dataset) -> NDArray[np.float64]:
        """Return the distance of each target to the closest record, shape (targets,)."""
        found = np.empty(targets.rows)
        for part, distances in self.blocks(targets):
            found[part] = distances.min(axis=1)
        return found

    def nearest(self, targets: Dataset, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the place of the nearest record of each target; ties are broken at random."""
        found = np.empty(targets.rows, dtype=np.int64)
        for part, distances in self.blocks(targets):
            # Distances are multiples of something much larger than this, or equal.
            distances += rng.random(distances.shape, dtype=np.float32) * np.float32(1e-4)
            found[part] = distances.argmin(axis=1)
        return found


def _steps(file: Dataset, values: CodeValues, name: str) -> NDArray[np.float32]:
    """Return the distance of each two codes of a column, shape (size, size)."""
    (size,) = file.domain.project((name,)).sizes
    if name not in values.values:
        return (1 - np.eye(size)).astype(np.float32)
    numbers = values.values[name]
    known = numbers[~np.isnan(numbers)]
    span = float(known.max() - known.min()) if known.size else 0.0
    gaps = np.abs(numbers[:, None] - numbers[None, :]) / (span or 1.0)
    missing = np.isnan(numbers)
    gaps[missing[:, None] != missing[None, :]] = 1.0
    gaps[missing[:, None] & missing[None, :]] = 0.0
    return gaps.astype(np.float32)


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
    from scipy import stats

    if min(members.size, control.size) < 2:
        raise ValueError("Membership inference needs two members and two controls.")
    halves = [np.array_split(rng.permutation(part), 2) for part in (members, control)]
    (learn, judge), (others, rest) = halves
    threshold = _threshold(learn, others)
    hits = [int((part <= threshold).sum()) for part in (judge, rest)]
    return MembershipResult(
        advantage(wilson(hits[0], judge.size), wilson(hits[1], rest.size)),
        float(stats.mannwhitneyu(control, members).statistic) / (members.size * control.size),
        judge.size + rest.size,
    )


def _threshold(members: NDArray[np.float64], control: NDArray[np.float64]) -> float:
    places = np.unique(np.concatenate([members, control]))
    below = [
        np.searchsorted(np.sort(part), places, side="right") / part.size
        for part in (members, control)
    ]
    return float(places[int((below[0] - below[1]).argmax())])
