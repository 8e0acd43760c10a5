"""A one-run audit with canaries: thousands of records, each in the file or not by its own coin.

The auditor makes the file and the schema, so that the record of every canary has cells of its own.
The release is made once, by the ordinary way. From the released tables the auditor guesses the
coins. Too many correct guesses refute what the release claims; they cannot happen by chance more
often than the p-value says.

Two claims can be tested:

- `release`: the release is (epsilon, delta)-private. Nothing else is assumed about it (Steinke,
  Nasr & Jagielski 2023, Theorem 2.1). Only Laplace noise comes near to what this allows.
- `charges`: each table with a canary's cells has at least the noise that its charge says, and the
  noise of different cells is independent. Then guesses are independent, and each is correct with
  at most the probability that the charges allow (`best_accuracy`). For every kind of noise.

`docs/canary-audit.md` says what this proves, with which power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.schema.privacy import Neighbours, Noise, Stage
from dp_core.spec.plan import Plan
from dp_core.spec.procedure import carry_out
from dp_core.spec.trial import trial_plan
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.accounting.events import Event
from dp_core.wall.ledger.session import MemorySession
from dp_core.wall.noise import granted_noise, stability, threaded_noise
from dp_core.wall.released import Measurement, SparseTable
from tests.guesses import any_mechanism, best_accuracy, fit, fit_power, law, log_ratio, noise_masses

PERSON = "person"
"""Column whose levels belong to one canary each."""

MOST_LEVELS = 2**16
"""Most levels of a column, so that tables of it stay small."""

Claim = Literal["release", "charges"]


@dataclass(frozen=True)
class CanaryFile:
    """A file of public records and canaries, and its schema.

    Under add-remove canary i has level i of the column `person`, and its record is in the file if
    its coin is 1. Under replace-one it has the levels 2i and 2i + 1, and its record is in the first
    if its coin is 1, otherwise in the second. All other codes of a canary's record are public.

    Attributes:
        canaries: Number of canaries, M.
        others: Number of codes of each of the other columns, default one column of 2.
        public: Number of public records in each cell where a canary's record may be, default 25.
        neighbours: Neighbouring relation that the release claims, default add-remove.
    """

    canaries: int
    others: tuple[int, ...] = (2,)
    public: int = 25
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        if self.canaries * self.levels > MOST_LEVELS:
            raise ValueError(f"A column has at most {MOST_LEVELS:,} levels.")

    @property
    def levels(self) -> int:
        """Levels of one canary: 1, or 2 under replace-one."""
        return 1 if self.neighbours == "add-remove" else 2

    @cached_property
    def domain(self) -> Domain:
        """All columns."""
        names = tuple(f"column-{number}" for number in range(1, len(self.others) + 1))
        return Domain((PERSON, *names), (self.canaries * self.levels, *self.others))

    @cached_property
    def codes(self) -> NDArray[np.uint16]:
        """Codes of the record of each level of `person`, shape (columns, levels)."""
        # Scattered, so that the columns depend on one another and a method measures their tables.
        rng = np.random.default_rng(1)
        size = self.domain.sizes[0]
        of_others = [rng.integers(0, codes, size) for codes in self.others]
        return np.array([np.arange(size), *of_others]).astype(np.uint16)

    def counter(self, coins: NDArray[np.bool_], *, times: int = 1) -> MemoryCounter:
        """Return the counter of the file.

        Args:
            coins: One for each canary, shape (canaries,).
            times: How often a canary's record is counted; more than once is a planted fault.
        """
        places = np.arange(self.canaries)
        present = places[coins] if self.levels == 1 else 2 * places + ~coins
        everyone = np.arange(self.domain.sizes[0])
        rows = np.concatenate([np.repeat(everyone, self.public), np.repeat(present, times)])
        return MemoryCounter(Dataset(self.domain, np.ascontiguousarray(self.codes[:, rows])))

    def noisy_counts(self, item: Measurement | SparseTable) -> NDArray[np.float64]:
        """Return the noisy counts of the canaries' cells less their public records.

        Returns:
            Shape (canaries, levels); NaN where a threshold dropped the cell.
        """
        cells = self.codes[list(self.domain.axes(item.clique))]
        if isinstance(item, Measurement):
            found = item.values[tuple(cells.astype(np.intp))].astype(np.float64)
        else:
            kept = dict(zip(map(bytes, item.cells), item.values.tolist(), strict=True))
            wanted = np.ascontiguousarray(cells.T)
            found = np.array([kept.get(bytes(cell), np.nan) for cell in wanted])
        return found.reshape(self.canaries, self.levels) - self.public


@dataclass(frozen=True, kw_only=True)
class Case:
    """One audit, fixed before the release is made.

    Attributes:
        method: Name of the preset.
        file: The auditor's file.
        epsilon: Epsilon of the guarantee.
        delta: Delta of the guarantee, default 0.
        noise: Kind of noise, default Laplace.
        claim: What is tested, default `charges`.
        guesses: Number of canaries whose coins are guessed, those with the largest scores; None
            for all.
        options: Options of the selection.
        shares: Shares of the stages; the preset divides the rest.
    """

    method: str
    file: CanaryFile
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    noise: Noise = "laplace"
    claim: Claim = "charges"
    guesses: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[Stage, Fraction] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return the plan of the release."""
        return trial_plan(
            self.file.domain,
            self.method,
            self.epsilon,
            self.delta,
            neighbours=self.file.neighbours,
            select=self.options,
            shares=self.shares,
            noise=self.noise,
        )


_AUTO = Case(
    method="auto",
    file=CanaryFile(12_000),
    epsilon=Fraction(14),
    delta=Fraction("1e-9"),
    noise="gaussian",
)
_SBA = Case(
    method="sba",
    file=CanaryFile(24_000, public=40),
    epsilon=Fraction(5, 2),
    delta=Fraction("1e-15"),
    claim="release",
)
CASES = {
    "auto": _AUTO,
    "aim": Case(
        method="aim",
        file=CanaryFile(12_000),
        epsilon=Fraction(18),
        delta=Fraction("1e-9"),
        noise="gaussian",
        options={"pace": 1},
    ),
    "sba": _SBA,
    "auto, its whole epsilon": Case(
        method="auto",
        file=CanaryFile(40_000),
        epsilon=Fraction(5, 2),
        claim="release",
        guesses=19_600,
        shares={"select": Fraction(1, 100), "one_way": Fraction(1, 50)},
    ),
    "sbhg": Case(
        method="sbhg",
        file=CanaryFile(40_000, public=70),
        epsilon=Fraction(5, 2),
        delta=Fraction("1e-15"),
        claim="release",
        guesses=25_000,
        shares={"select": Fraction(1, 100), "total": Fraction(1, 100)},
    ),
    "auto, replace-one": replace(
        _AUTO, file=CanaryFile(16_000, neighbours="replace-one"), epsilon=Fraction(18)
    ),
    "sba, replace-one": replace(
        _SBA, file=CanaryFile(32_000, public=80, neighbours="replace-one"), guesses=19_000
    ),
}
"""Audits that find a scale 10 % too small. A threshold drops none of their canaries' cells, except
with a probability below 1e-12."""


@dataclass(frozen=True)
class Finding:
    """What an audit found.

    Attributes:
        guesses: Number of coins that were guessed.
        correct: Number of correct guesses.
        p_value: Bound on the probability of so many correct guesses if the claim is true.
        fit: p-value of a test whether the scores of all canaries have the distribution that follows
            from the charged noise, independently of one another.
        events: Charges of the tables with cells of the canaries.
        share: Their part of everything that the release may spend.
    """

    guesses: int
    correct: int
    p_value: float
    fit: float
    events: tuple[Event, ...]
    share: float


def audit(case: Case, *, rng: np.random.Generator, times: int = 1) -> Finding:
    """Make a release of the auditor's file, and test its claim.

    Args:
        case: The audit.
        rng: Draws the coins.
        times: How often a canary's record is counted; more than once is a planted fault.

    Raises:
        ValueError: if a threshold dropped cells of the canaries. The file needs more public
            records.
    """
    coins = rng.integers(0, 2, case.file.canaries).astype(bool)
    made = carry_out(case.plan(), case.file.counter(coins, times=times))
    own = [
        item
        for item in made.released
        if isinstance(item, Measurement | SparseTable) and PERSON in item.clique
    ]
    assert isinstance(made.session, MemorySession)
    charges = {grant.number: grant.step for grant in made.session.charges}
    paid = [charges[item.grant] for item in own]
    events = tuple(step.event for step in paid)
    score = np.zeros(case.file.canaries)
    for item, event in zip(own, events, strict=True):
        assert item.scale == float(event.scale)  # what is published is what was charged
        counts = case.file.noisy_counts(item)
        if np.isnan(counts).any():
            raise ValueError("A threshold dropped cells of the canaries.")
        score += log_ratio(item.noise, item.scale, counts) @ np.array([1, -1])[: counts.shape[1]]
    guesses, correct = guessed(score, coins, case.guesses)
    cost = sum((step.cost for step in paid), Fraction(0))
    return Finding(
        guesses,
        correct,
        p_value(case, events, guesses, correct),
        fit(score * np.where(coins, 1, -1), law(events, cells=case.file.levels)),
        events,
        float(cost / made.session.currency.limit),
    )


def guessed(
    score: NDArray[np.float64], coins: NDArray[np.bool_], guesses: int | None
) -> tuple[int, int]:
    """Return the number of guesses, and how many of them are correct.

    Args:
        score: Positive where the coin is probably 1.
        coins: The coins.
        guesses: Guess those with the largest scores only; None for all.
    """
    asked = np.argsort(-np.abs(score).round(9), kind="stable")[:guesses]
    return len(asked), int(((score > 0) == coins)[asked].sum())


# -- how many correct guesses refute a claim


def p_value(case: Case, events: Sequence[Event], guesses: int, correct: int) -> float:
    """Return a bound on the probability of so many correct guesses if the claim is true."""
    if case.claim == "charges":
        return float(stats.binom.sf(correct - 1, guesses, best_accuracy(tuple(events))))
    return any_mechanism(
        case.file.canaries, guesses, correct, float(case.epsilon), float(case.delta)
    )


def fewest_to_refute(case: Case, events: Sequence[Event], guesses: int, level: float) -> int:
    """Return the least number of correct guesses whose p-value is at most `level`."""
    low, high = 0, guesses + 1
    while high - low > 1:
        middle = (low + high) // 2
        if p_value(case, events, guesses, middle) <= level:
            high = middle
        else:
            low = middle
    return high


def chance_of_guesses(
    case: Case, events: Sequence[Event], *, factor: float = 1.0, moved: int = 1
) -> tuple[int, float, float]:
    """Return the number of guesses, the probability that each is right, and that there are enough.

    Args:
        case: The audit.
        events: Charges of the tables with cells of the canaries.
        factor: What the scale that is drawn with is multiplied by.
        moved: How far a canary's record moves the count of its cell.
    """
    found = law(events, factor=factor, moved=moved, cells=case.file.levels)
    if case.guesses is None:
        return case.file.canaries, found.accuracy, 1.0
    # Guessed are canaries on whose coin all tables agree, if there are enough of them.
    chance, accuracy = found.largest
    enough = stats.binom.sf(case.guesses - 1, case.file.canaries, chance)
    return case.guesses, accuracy, float(enough)


def power(
    case: Case, events: Sequence[Event], level: float, *, factor: float = 1.0, moved: int = 1
) -> float:
    """Return the probability that an audit refutes its claim; no draws.

    Args:
        case: The audit.
        events: Charges of the tables with cells of the canaries.
        level: Probability of a false alarm.
        factor: What the scale that is drawn with is multiplied by.
        moved: How far a canary's record moves the count of its cell.
    """
    guesses, accuracy, enough = chance_of_guesses(case, events, factor=factor, moved=moved)
    least = fewest_to_refute(case, events, guesses, level)
    return enough * float(stats.binom.sf(least - 1, guesses, accuracy))


def scores_power(
    case: Case, events: Sequence[Event], level: float, *, factor: float = 1.0
) -> float:
    """Return the probability that the scores are found not to have the noise that was charged.

    Args:
        case: The audit.
        events: Charges of the tables with cells of the canaries.
        level: Probability of a false alarm.
        factor: What the scale that is drawn with is multiplied by.
    """
    expected, drawn = (law(events, factor=each, cells=case.file.levels) for each in (1.0, factor))
    return fit_power(expected, drawn, case.file.canaries, level)


# -- planted faults


@contextmanager
def sampler(patch: pytest.MonkeyPatch, *, factor: float, seed: int | None = None) -> Iterator[None]:
    """Draw noise of another scale than was charged, from here on.

    Args:
        patch: Restores the sampler at the end.
        factor: What the scale is multiplied by.
        seed: Seed of a generator that draws in place of the exact sampler, so that a repetition
            gives the same; None draws with the exact sampler.
    """
    draw = granted_noise.add_noise if seed is None else seeded_noise(seed)

    def add_noise(kind: Noise, values: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
        return draw(kind, values, Fraction(float(scale) * factor))

    with patch.context() as here:
        for module in (granted_noise, stability):
            here.setattr(module, "add_noise", add_noise)
        if seed is not None:
            here.setattr(granted_noise, "noisy_max", seeded_choice(seed))
            # One generator, one thread.
            here.setattr(threaded_noise, "FEW_CELLS", 2**62)
        yield


def seeded_noise(seed: int) -> Callable[[Noise, NDArray[np.int64], Fraction], NDArray[np.int64]]:
    """Return what stands in for `add_noise`: the same noise from a seeded generator."""
    rng = np.random.default_rng([seed, 1])

    def add_noise(kind: Noise, values: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
        z, masses = noise_masses(kind, float(scale))
        return values + z[np.searchsorted(np.cumsum(masses)[:-1], rng.random(values.shape))]

    return add_noise


def seeded_choice(seed: int) -> Callable[..., int]:
    """Return what stands in for `noisy_max`."""
    rng = np.random.default_rng([seed, 2])

    def noisy_max(scores: NDArray[np.int64], scale: Fraction, *, gumbel: bool) -> int:
        noise = rng.gumbel(size=len(scores)) if gumbel else rng.exponential(size=len(scores))
        return int(np.argmax(scores + float(scale) * noise))

    return noisy_max
