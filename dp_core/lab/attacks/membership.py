"""Membership inference: by the closest synthetic record, and by a shadow model.

The distance of records is Gower's coefficient: an ordered column contributes |a - b| over its
range, and 1 if one value only is missing; any other column contributes 1 if the levels differ.
Gower (1971), Biometrics 27(4). A record that is closer to the synthetic file than most is called a
member. The threshold is chosen on one half of members and control, and the attack is judged on the
other half, so that an attack without information has advantage 0 on average. Sources: Chen, Yu,
Zhang & Fritz (2020), CCS, the attack without a reference; Yeom, Giacomelli, Fredrikson & Jha
(2018), CSF, for the advantage.

For the shadow model, the attacker knows the method and has records of the same population. The
attacker makes many synthetic files, each from a random part of these records that contains each
target with probability 1/2, and learns how files made with a target differ from the others. The
attack is judged on files from which it did not learn. As each file is made with about half of the
targets, it serves for all of them.

What the classifier sees of a file, for one target: the number of synthetic records that agree with
it in single columns, pairs and triples of columns, more for rarer values, and its distance to the
closest record. All are standardised, so that one logistic regression serves all targets. Sources:
Stadler, Oprisanu & Troncoso (2022), USENIX Security, "Synthetic data - anonymisation groundhog
day"; Houssiau et al. (2022), TAPAS, for counting queries as features; Carlini et al. (2022), IEEE
S&P, for shared shadow models.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.field_scores.code_values import CodeValues, records_at
from dp_core.metrics.marginal_error import record_keys

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
    """

    advantage: Estimate
    auc: float


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """What an attack is made on.

    Attributes:
        members: Records from which the synthetic ones were made.
        control: Records from which they were not.
        synthetic: The synthetic records.
        values: The ordered columns and their numbers.
    """

    members: Dataset
    control: Dataset
    synthetic: Dataset
    values: CodeValues


def distance_attack(attacked: Attacked, *, rng: np.random.Generator) -> MembershipResult:
    """Return the success of calling those records members that are close to a synthetic one.

    Args:
        attacked: What is attacked, with at least two members and two controls.
        rng: Generator that halves members and control.
    """
    from scipy import stats

    distances = RecordDistances(attacked.synthetic, attacked.values)
    near, far = distances.closest(attacked.members), distances.closest(attacked.control)
    if min(near.size, far.size) < 2:
        raise ValueError("Membership inference needs two members and two controls.")
    halves = [np.array_split(rng.permutation(part), 2) for part in (near, far)]
    (learn, judge), (others, rest) = halves
    threshold = _threshold(learn, others)
    hits = [int((part <= threshold).sum()) for part in (judge, rest)]
    return MembershipResult(
        advantage(Rate(hits[0], judge.size), Rate(hits[1], rest.size)),
        float(stats.mannwhitneyu(far, near).statistic) / (near.size * far.size),
    )


def _threshold(members: NDArray[np.float64], control: NDArray[np.float64]) -> float:
    places = np.unique(np.concatenate([members, control]))
    below = [
        np.searchsorted(np.sort(part), places, side="right") / part.size
        for part in (members, control)
    ]
    return float(places[int((below[0] - below[1]).argmax())])


MOST_CLIQUES = 60
"""Pairs, and triples, of columns whose agreement is counted; of more, a random sample."""
FEWEST_FILES = 8
"""Files that an attack needs: to learn from, and to be judged on."""


Make: TypeAlias = Callable[[NDArray[np.bool_], int], Dataset]
"""Makes a synthetic file of the records that the first argument marks, shape (records,); the second
is the number of the file, from 0, for a seed."""


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """Success of the shadow attack.

    Attributes:
        advantage: True minus false positive rate, 2 accuracy - 1, mean over the files on which the
            attack is judged; its interval treats files as independent, not targets.
        targets: Number of targets.
        files_learnt: Files from which the attack learnt.
        files_judged: Files on which it was judged.
    """

    advantage: Estimate
    targets: int
    files_learnt: int
    files_judged: int


def unusual_records(data: Dataset, number: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the places of the records with the rarest levels, which are most at risk.

    Args:
        data: A file.
        number: Number of records, at most those of the file.
        rng: Generator for ties.

    Returns:
        Places in the file, ascending.
    """
    rarity = np.zeros(data.rows)
    for name in data.domain.columns:
        codes = data.column(name)
        rarity -= np.log(np.bincount(codes)[codes] / data.rows)
    order = np.lexsort((rng.random(data.rows), -rarity))
    return np.sort(order[:number])


def shadow_attack(
    make: Make,
    data: Dataset,
    values: CodeValues,
    *,
    files: int,
    targets: int,
    rng: np.random.Generator,
) -> ShadowResult:
    """Return the success of membership inference by shadow files.

    Args:
        make: Makes a synthetic file.
        data: All records that the attacker and the release draw from.
        values: The ordered columns and their numbers.
        files: Number of files, at least 8; a third of them judges.
        targets: Number of targets, the most unusual records.
        rng: Generator of the parts and of the features.

    Raises:
        ValueError: if there are too few files or records.
    """
    if files < FEWEST_FILES or data.rows < 4 * targets:
        raise ValueError(f"A shadow attack needs {FEWEST_FILES} files, and 4 records per target.")
    chosen = unusual_records(data, targets, rng=rng)
    features = TargetFeatures(records_at(data, chosen), data, values, rng=rng)
    inside = np.empty((files, targets), dtype=bool)
    seen = np.empty((files, targets, features.number))
    for number in range(files):
        part = rng.random(data.rows) < 0.5
        inside[number] = part[chosen]
        seen[number] = features.of(make(part, number))
    judged = max(FEWEST_FILES // 3, files // 3)
    right = _predict_members(seen, inside, files - judged) == inside[files - judged :]
    accuracy = right.mean(axis=1)
    return ShadowResult(
        mean_interval([2 * float(one) - 1 for one in accuracy]), targets, files - judged, judged
    )


class TargetFeatures:
    """What the attack sees of a synthetic file, for each target.

    Args:
        targets: The targets.
        data: Records of the population, for the weights of rare values.
        values: The ordered columns and their numbers.
        rng: Generator of the sample of pairs and triples.
    """

    def __init__(
        self, targets: Dataset, data: Dataset, values: CodeValues, *, rng: np.random.Generator
    ) -> None:
        self._targets, self._values = targets, values
        columns = range(len(targets.domain))
        self._cliques = []
        for ways in (1, 2, 3):
            every = list(itertools.combinations(columns, ways)) if ways <= len(columns) else []
            if len(every) > MOST_CLIQUES:
                places = rng.choice(len(every), MOST_CLIQUES, replace=False)
                every = [every[place] for place in np.sort(places)]
            if every:
                self._cliques.append(every)
        self._usual = [[self._share(data, clique) for clique in group] for group in self._cliques]
        self.number = len(self._cliques) + 1

    def of(self, synthetic: Dataset) -> NDArray[np.float64]:
        """Return the features of each target, shape (targets, number)."""
        found = np.zeros((self._targets.rows, self.number))
        if not synthetic.rows:
            return found
        for place, (group, usual) in enumerate(zip(self._cliques, self._usual, strict=True)):
            for clique, expected in zip(group, usual, strict=True):
                share = self._share(synthetic, clique)
                # One record more counts for as much as it stands out from what is usual.
                scale = np.sqrt(np.maximum(expected, 1 / synthetic.rows))
                found[:, place] += (share - expected) / scale
        distances = RecordDistances(synthetic, self._values)
        found[:, -1] = -distances.closest(self._targets)
        return found

    def _share(self, data: Dataset, clique: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the share of records that agree with each target in these columns."""
        names = [data.domain.columns[axis] for axis in clique]
        keys, own = record_keys(names, (data, self._targets))
        found, counts = np.unique(keys, return_counts=True)
        places = np.minimum(np.searchsorted(found, own), found.size - 1)
        return np.where(found[places] == own, counts[places], 0) / max(data.rows, 1)


def _predict_members(
    seen: NDArray[np.float64], inside: NDArray[np.bool_], learnt: int
) -> NDArray[np.bool_]:
    """Return what a logistic regression, fitted to the first files, says of the others."""
    from sklearn.linear_model import LogisticRegression

    centre, spread = seen[:learnt].mean(axis=0), seen[:learnt].std(axis=0)
    standard = (seen - centre) / np.where(spread > 1e-12, spread, 1.0)
    known = inside[:learnt].ravel()
    if known.all() or not known.any():
        return np.full(inside[learnt:].shape, bool(known[0]))
    learner = LogisticRegression(C=1.0, max_iter=1000)
    learner.fit(standard[:learnt].reshape(-1, seen.shape[2]), known)
    asked = standard[learnt:]
    answer: NDArray[np.bool_] = learner.predict(asked.reshape(-1, seen.shape[2])).astype(bool)
    return answer.reshape(asked.shape[:2])


LEVEL = 0.95
"""Confidence level of all intervals."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of success, with its 95 % Wilson score interval (Wilson 1927, JASA 22).

    Attributes:
        successes: Number of successes.
        attempts: Number of attempts, at least 1.

    >>> round(Rate(0, 100).value, 5), round(Rate(50, 100).value, 2)
    (0.0185, 0.5)
    """

    successes: int
    attempts: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.attempts or not self.attempts:
            raise ValueError(f"{self.successes} successes of {self.attempts} attempts are no rate.")

    @property
    def share(self) -> float:
        """Share of the attempts that succeeded."""
        return self.successes / self.attempts

    @property
    def value(self) -> float:
        """Centre of the interval, which anonymeter also reports."""
        return sum(self._interval()) / 2

    @property
    def error(self) -> float:
        """Half the length of the interval."""
        low, high = self._interval()
        return (high - low) / 2

    def _interval(self) -> tuple[float, float]:
        from statsmodels.stats.proportion import proportion_confint

        low, high = proportion_confint(self.successes, self.attempts, 1 - LEVEL, method="wilson")
        return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with a 95 % interval.

    Attributes:
        value: The estimate.
        low, high: Ends of the interval.
    """

    value: float
    low: float
    high: float


def residual_risk(attack: Rate, control: Rate) -> Estimate:
    """Return how far an attack on members exceeds the same attack on the control, from 0 to 1.

    R = (r - c) / (1 - c), with errors propagated to first order: Giomi, Boenisch, Wehmeyer &
    Tasnadi (2023), PoPETs 2023(2), Section 3.3.

    Args:
        attack: Success on members.
        control: Success on the control.
    """
    if control.value >= 1:
        return Estimate(0.0, 0.0, 1.0)
    left = 1 - control.value
    value = (attack.value - control.value) / left
    error = math.hypot(attack.error / left, (1 - attack.value) * control.error / left**2)
    return Estimate(*(min(max(one, 0.0), 1.0) for one in (value, value - error, value + error)))


def advantage(members: Rate, control: Rate) -> Estimate:
    """Return true minus false positive rate of a membership attack, with Newcombe's interval.

    The interval combines the two Wilson intervals: Newcombe (1998), Statistics in Medicine 17,
    method 10.

    Args:
        members: Members that the attack calls members.
        control: Records of the control that it calls members.
    """
    from statsmodels.stats.proportion import confint_proportions_2indep

    counts = members.successes, members.attempts, control.successes, control.attempts
    low, high = confint_proportions_2indep(*counts, method="newcomb", alpha=1 - LEVEL)
    return Estimate(members.share - control.share, float(low), float(high))


def mean_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values with Student's 95 % interval.

    Args:
        values: At least two values.
    """
    from scipy import stats

    if len(values) < 2:
        raise ValueError("An interval needs at least two values.")
    mean, error = float(np.mean(values)), float(stats.sem(values))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return Estimate(mean, mean - half, mean + half)


def permitted_advantage(epsilon: float, delta: float) -> float:
    """Return the largest advantage of any membership attack on an (epsilon, delta)-DP release.

    (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): Kairouz, Oh & Viswanath (2015), Theorem 2.1, at its
    symmetric point; for delta = 0 see also Humphries et al. (2023), Theorem 3.1.

    >>> round(permitted_advantage(1.0, 0.0), 4), permitted_advantage(0.0, 0.0)
    (0.4621, 0.0)
    """
    if epsilon > 700:
        return 1.0
    grown = math.exp(epsilon)
    return min(1.0, (grown - 1 + 2 * delta) / (grown + 1))
