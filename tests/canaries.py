"""Audits with canaries: thousands of units, each in the file or not by its own coin.

A case names a unit of privacy, a relation, a question and a route: a release from files, questions
to a desk, or a release in memory (for the presets' methods, which are too many for files). The
auditor makes the file and the schema (`tests/canary_files.py`), the program answers by its ordinary
way, and the auditor looks at every noisy vector that it published, in four ways:

- *Reach*: what a canary changes, over the sensitivity that was charged. More than 1 is a fault. No
  chance is involved.
- *Guesses*: from the answers and everything but a canary's own coin, the auditor guesses the coin.
  Too many correct guesses refute the claim.
- *Noise*: the auditor knows the exact answers, so the rest is noise. The likelihood ratio of a
  smaller scale, in steps, has a distribution that follows from the charges.
- *Counts*: along what all canaries add, the noise is small, unless their rows are counted more or
  less often than once.

Guesses test one of two claims:

- `release`: the release is (epsilon, delta)-private. Nothing else is assumed about it (Steinke,
  Nasr & Jagielski 2023, Theorem 2.1). Only Laplace noise comes near to what this allows.
- `charges`: each vector that a canary changes has at least the noise that its charge says, and the
  noise of different entries is independent. Then guesses are independent, and each is correct with
  at most the probability that the charges allow (`best_accuracy`). For every kind of noise.

`docs/canary-audit.md` says what this proves, with which power.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse, stats
from scipy.special import logsumexp

from benchmarks.trial import trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.bundle.files.marginals_file import Measured, read_marginals
from dp_core.bundle.verification.claims import read_claims
from dp_core.client.released import Measurement, SparseTable, Totals
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.extensions import thresholds
from dp_core.kernel.mechanisms import additive_noise, private_choice
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Noise, Stage
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import carry_out
from dp_core.plan.steps import posterior_draws
from tests.canary_files import (
    CANARY,
    ROWS,
    CanaryFile,
    Codes,
    Households,
    Panel,
    Persons,
    regression_file,
    statistics_file,
    table_file,
)
from tests.guesses import (
    Moves,
    Vector,
    any_mechanism,
    best_accuracy,
    law,
    log_ratio,
    noise_masses,
    unlikely_noise,
    unlikely_noise_power,
)

Claim = Literal["release", "charges"]
_SHIFTS = np.array([1, 1 / 2, 1 / 4, 1 / 8, -1 / 8, -1 / 4, -1 / 2, -1])
"""Shifts of the noise, in parts of what all canaries add, that the test of the counts looks for."""


@dataclass(frozen=True, eq=False)
class Published:
    """What a release published: noisy vectors, the event that paid for each, and its cost."""

    item: Measured
    event: Event
    part: float


@dataclass(frozen=True, kw_only=True)
class InMemory:
    """A release in memory by a method, without files, coding and ledger.

    Attributes:
        method: Name of the preset.
        options: Options of the selection.
        shares: Shares of the stages; the preset divides the rest.
        times: How often a canary's record is counted; more than once is a planted fault.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[Stage, Fraction] = field(default_factory=dict)
    times: int = 1

    def publish(self, case: Case, coins: NDArray[np.bool_]) -> Iterator[Published]:
        """Yield what the release publishes."""
        file = case.file
        _, own = file.present(coins)
        codes = np.concatenate([file.public, np.repeat(own, self.times, axis=1)], axis=1)
        counter = MemoryCounter(Dataset(file.domain, np.ascontiguousarray(codes)))
        made = carry_out(self.plan(case), counter)
        assert isinstance(made.session, MemorySession)
        charges = {grant.number: grant.step for grant in made.session.charges}
        for item in made.released:
            if isinstance(item, Measurement | SparseTable):
                paid = charges[item.grant]
                part = float(paid.cost / made.session.currency.limit)
                yield Published(item, paid.event, part)

    def plan(self, case: Case) -> Plan:
        """Return the plan of the release."""
        return trial_plan(
            case.file.domain,
            self.method,
            case.epsilon,
            case.delta,
            neighbours=case.file.neighbours,
            select=self.options,
            shares=self.shares,
            noise=case.noise,
        )


@dataclass(frozen=True, kw_only=True)
class FromFiles:
    """A release from files, by the flow: reading, coding, row limits, counting, ledger, bundle.

    Attributes:
        asks: Keys of the spec that say what is measured.
    """

    asks: str

    def publish(self, case: Case, coins: NDArray[np.bool_]) -> Iterator[Published]:
        """Yield what the bundle holds."""
        from flows.release import carry_out

        with _office(case, coins) as (folder, _):
            (folder / "release.yaml").write_text(
                "version: 1\nrelease: audited\nschema: schema.yaml\naccount: audited\n"
                f"data: {case.file.unit.data()}\nmeasure: {{noise: {case.noise}}}\n"
                f"privacy: {{epsilon: {float(case.epsilon):g}, delta: {float(case.delta):g},"
                f" neighbours: {case.file.neighbours}}}\n{self.asks}"
            )
            carry_out(folder / "release.yaml", folder / "bundle", perform=_plainly)
            yield from _of_bundle(folder / "bundle")


@dataclass(frozen=True, kw_only=True)
class FromDesk:
    """Questions to a desk, each of which is a release of its own.

    Attributes:
        questions: The questions.
    """

    questions: tuple[str, ...]

    def publish(self, case: Case, coins: NDArray[np.bool_]) -> Iterator[Published]:
        """Yield what the bundles of all answers hold."""
        from flows.cli.actions.file_check import check
        from flows.desk import asking
        from flows.desk.desk import find_desk, open_desk
        from flows.release import carry_out

        with _office(case, coins) as (folder, ledger):
            (folder / "desk.yaml").write_text(
                f"version: 1\naccount: audited\ndata: {case.file.unit.data()}\n"
                f"schema: schema.yaml\nlargest_epsilon: {float(case.epsilon):g}\n"
                f"privacy: {{delta: {float(case.delta):g}, neighbours: {case.file.neighbours}}}\n"
            )
            open_desk(
                folder / "desk.yaml",
                ledger,
                by="auditor",
                reason="audit with canaries",
                fits=lambda schema, data: check(schema, [data]).fits,
            )
            for question in self.questions:
                desk = find_desk("audited")
                number = asking.admit_question(desk, question, case.epsilon, None)
                answered = asking.answer_question(
                    desk,
                    number,
                    carry_out=lambda spec, out: carry_out(spec, out, perform=_plainly) and None,
                )
                yield from _of_bundle(answered.folder)


Route: TypeAlias = InMemory | FromFiles | FromDesk


@contextmanager
def _office(case: Case, coins: NDArray[np.bool_]) -> Iterator[tuple[Path, Any]]:
    """Yield a folder with the data and the schema, and the ledger with an account."""
    from tasks.run.home import open_ledger
    from tests.plain_judge import PlainJudge, users

    file = case.file
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        home, folder = Path(place, "home"), Path(place, "work")
        folder.mkdir()
        for name, value in (("HOME", home), ("STATE", Path(place, "state"))):
            patch.setenv(f"DP_RELEASE_{name}", str(value))
        patch.delenv("DP_RELEASE_LEDGER", raising=False)
        for module in users():
            patch.setattr(module, "SuiteJudge", PlainJudge)
        # Public records by which a regression chooses its questions: they take most of the time.
        patch.setattr(posterior_draws, "MODEL_RECORDS", 1 << 11)
        file.unit.write(folder, file, coins)
        (folder / "schema.yaml").write_text(
            "version: 1\ntitle: Canaries\nmissing_values: ['']\n"
            f"rows_about: {file.public.shape[1] + file.canaries}\n{file.unit.schema(file.columns)}"
        )
        ledger = open_ledger(home)
        ledger.open_account(
            "audited",
            terms=Terms("basic", Fraction(10_000), Fraction("1e-3")),
            neighbours=file.neighbours,
            unit=file.unit.word,
            by="auditor",
            reason="audit with canaries",
        )
        yield folder, ledger


def _plainly(task: Any, *given: Any) -> Any:
    """Call a task as a plain function."""
    return task.fn(*given)


def _of_bundle(folder: Path) -> Iterator[Published]:
    claims = read_claims(json.loads((folder / "release.json").read_bytes()))
    charges = {charge.number: charge for charge in claims.payer.charges}
    for item in read_marginals(folder / "marginals.parquet"):
        paid = charges[item.grant]
        yield Published(item, paid.event, float(paid.cost / claims.currency.limit))


@dataclass(frozen=True, kw_only=True)
class Case:
    """One audit, fixed before anything is released.

    Attributes:
        route: How the question is asked.
        file: The auditor's file, with its unit and relation.
        epsilon: Epsilon of the guarantee; of a desk, of each question.
        delta: Its delta, default 0.
        noise: Kind of noise, default Laplace.
        claim: What the guesses test, default `charges`.
        guesses: Number of canaries whose coins are guessed, those with the largest scores; None
            for all.
    """

    route: Route
    file: CanaryFile
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    noise: Noise = "laplace"
    claim: Claim = "charges"
    guesses: int | None = None


# -- what the auditor computes


@dataclass(frozen=True, eq=False)
class Answer:
    """A noisy vector, and the auditor's own exact answers.

    Attributes:
        noise: Kind of noise, as published.
        scale: Its parameter, in units of the values.
        event: What was charged.
        part: Part of everything that was spent.
        noises: Values less the auditor's exact answer, shape (entries,).
        added: What all canaries add, each by its coin, shape (entries,).
        changes: What the canary with coin 1 adds, less that with coin 0, shape (canaries, entries).
    """

    noise: Noise
    scale: float
    event: Event
    part: float
    noises: NDArray[np.float64]
    added: NDArray[np.float64]
    changes: sparse.csr_matrix

    @staticmethod
    def of(published: Published, file: CanaryFile, coins: NDArray[np.bool_]) -> Answer | None:
        """Return what the auditor computes; None for columns or bins that are not its own.

        Raises:
            ValueError: if a threshold dropped cells of the canaries. The file needs more public
                records.
        """
        item, unit = published.item, file.unit
        asked = item.of.clique if isinstance(item, Totals) else item.clique
        names = [unit.column(name) for name in asked]
        if any(name not in file.domain.columns for name in names):
            return None
        axes = list(file.domain.axes(tuple(name for name in names if name is not None)))
        sizes: tuple[int, ...] = ()  # a total counts in the stored codes, which are the file's
        if not isinstance(item, Totals):
            sizes = item.domain.sizes
        elif isinstance(item.of, Interaction):
            sizes = item.of.sizes
        if any(size < file.domain.sizes[axis] for size, axis in zip(sizes, axes, strict=False)):
            return None  # it counts in bins
        entries = _Entries(item, unit.shares)
        public, weights = unit.records(file)
        own = np.full(file.canaries, unit.weight)
        one = entries.added(file.one[axes], own)
        other = one * 0 if file.other is None else entries.added(file.other[axes], own)
        added = one.T @ coins.astype(float) + other.T @ (~coins).astype(float)
        noises = entries.values - entries.total(public[axes], weights) - added
        scale = float(item.scale * unit.shares)
        assert scale == pytest.approx(float(published.event.scale), rel=1e-12)
        return Answer(
            item.noise, scale, published.event, published.part, noises, added, one - other
        )

    @property
    def vector(self) -> Vector:
        """The number of entries and their noise."""
        return Vector(self.noise, self.scale, len(self.noises))

    def moves(self, canary: int) -> Moves:
        """Return how a canary moves the entries."""
        sizes = np.abs(self.changes[canary].data)
        return Moves(self.noise, self.scale, tuple(sorted(sizes[sizes > 0].tolist())))


class _Entries:
    """The entries of a published vector, as sums over records."""

    def __init__(self, item: Measured, shares: int) -> None:
        self.item = item
        values = np.asarray(item.values, dtype=float).ravel() * shares
        self.values = np.rint(values)
        if isinstance(item, SparseTable):
            keys = np.ravel_multi_index(tuple(item.cells.T.astype(np.intp)), item.domain.sizes)
            self.places = {int(key): place for place, key in enumerate(keys)}

    def added(self, codes: Codes, weights: NDArray[np.int64]) -> sparse.csr_matrix:
        """Return what each record adds, shape (records, entries)."""
        shape = (codes.shape[1], len(self.values))
        if isinstance(self.item, Totals):
            of, rows = self.item.of, []
            for cell, weight in zip(codes.T, weights, strict=True):
                rows.append(sparse.csr_matrix(of.total(cell[None, :], weight[None]).astype(float)))
            return sparse.vstack(rows, format="csr")
        places = np.ravel_multi_index(tuple(codes.astype(np.intp)), self.item.domain.sizes)
        if isinstance(self.item, SparseTable):
            places = np.array([self.places.get(int(place), -1) for place in np.atleast_1d(places)])
            if (places < 0).any():
                raise ValueError("A threshold dropped cells of the canaries.")
        places = np.broadcast_to(places, (shape[0],))
        return sparse.csr_matrix((weights.astype(float), (np.arange(shape[0]), places)), shape)

    def total(self, codes: Codes, weights: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what all records add together."""
        cells, place = np.unique(codes, axis=1, return_inverse=True)
        counts = np.bincount(place.ravel(), weights, cells.shape[1]).astype(np.int64)
        if isinstance(self.item, Totals):
            return self.item.of.total(np.ascontiguousarray(cells.T), counts).astype(float)
        return np.asarray(self.added(cells, counts).sum(axis=0), dtype=float).ravel()


def scores(answers: Sequence[Answer], coins: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the score of each canary, positive where its coin is probably 1, shape (canaries,).

    The score is the logarithm of the likelihood ratio, given everything but the canary's own coin.
    If canaries change the same entries, which have Gaussian noise, the noise is projected on
    orthogonal directions, one near to each canary's changes. So scores are independent always.
    """
    changes = sparse.hstack([each.changes / each.scale for each in answers], format="csr")
    together = (changes @ changes.T).tocsr()
    apart = together - sparse.diags(together.diagonal())
    if not apart.nnz or abs(apart).max() < 1e-12 * together.max():
        found = np.zeros(len(coins))
        for each in answers:
            canary = np.repeat(np.arange(len(coins)), np.diff(each.changes.indptr))
            moved = each.changes.data
            values = each.noises[each.changes.indices] + coins[canary] * moved
            ratios = log_ratio(each.noise, each.scale, values, moved)
            found += np.bincount(canary, ratios, len(coins))
        return found
    assert all(each.noise == "gaussian" for each in answers)
    found, vectors = np.linalg.eigh(together.toarray())
    kept = found > 1e-9 * found.max()
    assert kept.all(), "The changes of the canaries are linearly dependent."
    root = (vectors * np.sqrt(found)) @ vectors.T
    noises = np.concatenate([each.noises / each.scale for each in answers])
    projected = np.linalg.solve(root, changes @ noises)
    moved = np.diag(root)
    return log_ratio("gaussian", 1.0, projected + coins * moved, moved)


@dataclass(frozen=True)
class Finding:
    """What an audit found.

    Attributes:
        guesses: Number of coins that were guessed.
        correct: Number of correct guesses.
        p_value: Bound on the probability of so many correct guesses if the claim is true.
        noise: p-value of the likelihood of the noise of all entries, given the noise as charged.
        counts: p-value of the noise along what all canaries add, given the noise as charged.
        added: Length of what they add, in scales of the noise.
        reach: Largest change by a canary over the sensitivity that was charged for it.
        moves: Moves of the canary that moves least, as the auditor computed them.
        strongest: Moves of the canary that moves most, at most as much as was charged.
        vectors: Noise of all vectors.
        share: Part of everything that was spent on vectors that canaries change.
    """

    guesses: int
    correct: int
    p_value: float
    noise: float
    counts: float
    added: float
    reach: float
    moves: tuple[Moves, ...]
    strongest: tuple[Moves, ...]
    vectors: tuple[Vector, ...]
    share: float

    def passed(self, level: float) -> bool:
        """Return whether nothing refutes the claim, at a false-alarm rate of 3 `level`."""
        return self.reach <= 1 + 1e-9 and min(self.p_value, self.noise, self.counts) > level


def audit(case: Case, *, rng: np.random.Generator) -> Finding:
    """Let the program answer, and test its claim.

    Args:
        case: The audit.
        rng: Draws the coins.

    Raises:
        ValueError: if a threshold dropped cells of the canaries. The file needs more public
            records.
    """
    file = case.file
    coins = rng.integers(0, 2, file.canaries).astype(bool)
    published = list(case.route.publish(case, coins))
    # A fault of declared analyses must not be hidden by tables without one.
    declared = [each for each in published if each.item.stage == "analyses"]
    known = [Answer.of(each, file, coins) for each in declared or published]
    answers = [each for each in known if each is not None]
    own = [each for each in answers if _tells_apart(each)]
    score = scores(own, coins)
    moves, strongest, reach = _moves(own)
    guesses, correct = guessed(score, coins, case.guesses)
    vectors = tuple(each.vector for each in answers)
    likely = sum(each.vector.score(each.noises) for each in answers)
    return Finding(
        guesses,
        correct,
        p_value(case, strongest, guesses, correct),
        unlikely_noise(vectors, likely),
        *counts(answers),
        reach,
        moves,
        strongest,
        vectors,
        sum(each.part for each in own),
    )


def _tells_apart(answer: Answer) -> bool:
    """Return whether a vector has enough entries to tell canaries apart: no total, for example."""
    changing = int((answer.changes.getnnz(axis=1) > 0).sum())
    return 0 < changing <= len(answer.noises) + 1


def _moves(own: Sequence[Answer]) -> tuple[tuple[Moves, ...], tuple[Moves, ...], float]:
    """Return the moves of the canary that moves least, those of the strongest, and the reach."""
    lengths = [each.changes.power(2).sum(axis=1).A1 ** 0.5 / each.scale for each in own]
    reached = max(
        each.moves(int(np.argmax(length))).reach(each.event)
        for each, length in zip(own, lengths, strict=True)
    )
    order = np.argsort(sum(length**2 for length in lengths))
    least, most = int(order[0]), int(order[-1])
    return (
        tuple(each.moves(least) for each in own if each.changes[least].nnz),
        tuple(each.moves(most).at_most(each.event) for each in own if each.changes[most].nnz),
        reached,
    )


def counts(answers: Sequence[Answer]) -> tuple[float, float]:
    """Return the p-value of the noise along what all canaries add, and the length of that.

    The length is in scales of the noise. If rows of canaries are counted twice, the noise is
    shifted by what they add. The bound on the p-value is one over the mean likelihood ratio of
    `_SHIFTS`, whose expectation is at most 1 whatever is asked next: discrete Gaussian noise is
    subgaussian (Canonne, Kamath & Steinke 2020). Vectors with Laplace noise are left out.
    """
    gaussian = [each for each in answers if each.noise == "gaussian"]
    squares = sum(float(each.added @ each.added) / each.scale**2 for each in gaussian)
    along = sum(float(each.noises @ each.added) / each.scale**2 for each in gaussian)
    ratios = _SHIFTS * along - _SHIFTS**2 * squares / 2
    return float(np.exp(min(0.0, np.log(len(_SHIFTS)) - logsumexp(ratios)))), squares**0.5


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


def p_value(case: Case, moves: Sequence[Moves], guesses: int, correct: int) -> float:
    """Return a bound on the probability of so many correct guesses if the claim is true."""
    if case.claim == "charges":
        return float(stats.binom.sf(correct - 1, guesses, best_accuracy(tuple(moves))))
    return any_mechanism(
        case.file.canaries, guesses, correct, float(case.epsilon), float(case.delta)
    )


def fewest_to_refute(case: Case, moves: Sequence[Moves], guesses: int, level: float) -> int:
    """Return the least number of correct guesses whose p-value is at most `level`."""
    low, high = 0, guesses + 1
    while high - low > 1:
        middle = (low + high) // 2
        if p_value(case, moves, guesses, middle) <= level:
            high = middle
        else:
            low = middle
    return high


def chance_of_guesses(
    case: Case, found: Finding, *, factor: float = 1.0, moved: float = 1.0
) -> tuple[int, float, float]:
    """Return the number of guesses, the probability that each is right, and that there are enough.

    Args:
        case: The audit.
        found: What it found, with the moves and the noise of the canaries.
        factor: What the scale that is drawn with is multiplied by.
        moved: Factor of the canaries' moves.
    """
    drawn = law(found.moves, factor=factor, moved=moved)
    if case.guesses is None:
        return case.file.canaries, drawn.accuracy, 1.0
    # Guessed are canaries on whose coin all tables agree, if there are enough of them.
    chance, accuracy = drawn.largest
    enough = stats.binom.sf(case.guesses - 1, case.file.canaries, chance)
    return case.guesses, accuracy, float(enough)


def power(
    case: Case, found: Finding, level: float, *, factor: float = 1.0, moved: float = 1.0
) -> float:
    """Return the probability that the guesses refute the claim; no draws.

    Args:
        case: The audit.
        found: What it found, with the moves and the noise of the canaries.
        level: Probability of a false alarm.
        factor: What the scale that is drawn with is multiplied by.
        moved: Factor of the canaries' moves.
    """
    guesses, accuracy, enough = chance_of_guesses(case, found, factor=factor, moved=moved)
    least = fewest_to_refute(case, found.strongest, guesses, level)
    return enough * float(stats.binom.sf(least - 1, guesses, accuracy))


def counts_power(found: Finding, level: float) -> float:
    """Return the least probability that rows are found to be counted twice, or not at all.

    Args:
        found: What the audit found, with the length of what canaries add.
        level: Probability of a false alarm.
    """
    least = found.added**2 / 2 + np.log(len(_SHIFTS) / level)
    return float(stats.norm.cdf(found.added - least / found.added)) if found.added else 0.0


def noise_power(_case: Case, found: Finding, level: float, *, factor: float = 1.0) -> float:
    """Return the probability that the noise is found not to be as charged.

    Args:
        found: What the audit found, with the noise of all vectors.
        level: Probability of a false alarm.
        factor: What the scale that is drawn with is multiplied by.
    """
    return unlikely_noise_power(found.vectors, level, factor=factor)


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
    draw = additive_noise.add_noise if seed is None else seeded_noise(seed)

    def add_noise(kind: Noise, values: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
        return draw(kind, values, Fraction(float(scale) * factor))

    with patch.context() as here:
        for module in (additive_noise, thresholds):
            here.setattr(module, "add_noise", add_noise)
        if seed is not None:
            here.setattr(private_choice, "noisy_max", seeded_choice(seed))
            # One generator, one thread.
            here.setattr(additive_noise, "FEW_CELLS", 2**62)
        yield


def seeded_noise(seed: int) -> Callable[[Noise, NDArray[np.int64], Fraction], NDArray[np.int64]]:
    """Return what stands in for `add_noise`: the same noise from a seeded generator."""
    rng = np.random.default_rng([seed, 1])

    def add_noise(kind: Noise, values: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
        if scale > 1000:
            wide = rng.laplace if kind == "laplace" else rng.normal
            return values + np.rint(wide(0, float(scale), values.shape)).astype(np.int64)
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


# -- the cases

_DELTA = Fraction("1e-9")
_AUTO = Case(
    route=InMemory(method="auto"),
    file=table_file(12_000, public=25),
    epsilon=Fraction(14),
    delta=_DELTA,
    noise="gaussian",
)
_SBA = Case(
    route=InMemory(method="sba"),
    file=table_file(24_000, public=40),
    epsilon=Fraction(5, 2),
    delta=Fraction("1e-15"),
    claim="release",
)
_METHODS = {
    "auto": _AUTO,
    "aim": Case(
        route=InMemory(method="aim", options={"pace": 1}),
        file=table_file(12_000, public=25),
        epsilon=Fraction(18),
        delta=_DELTA,
        noise="gaussian",
    ),
    "sba": _SBA,
    "auto, its whole epsilon": Case(
        route=InMemory(
            method="auto", shares={"select": Fraction(1, 100), "one_way": Fraction(1, 50)}
        ),
        file=table_file(40_000, public=25),
        epsilon=Fraction(5, 2),
        claim="release",
        guesses=19_600,
    ),
    "sbhg": Case(
        route=InMemory(
            method="sbhg", shares={"select": Fraction(1, 100), "total": Fraction(1, 100)}
        ),
        file=table_file(40_000, public=70),
        epsilon=Fraction(5, 2),
        delta=Fraction("1e-15"),
        claim="release",
        guesses=25_000,
    ),
    "auto, replace-one": replace(
        _AUTO,
        file=table_file(16_000, neighbours="replace-one", public=25),
        epsilon=Fraction(18),
    ),
    "sba, replace-one": replace(
        _SBA, file=table_file(32_000, neighbours="replace-one", public=80), guesses=19_000
    ),
}
"""Presets, in memory, for rows. They find a scale 10 % too small. A threshold drops none of their
canaries' cells, except with a probability below 1e-12."""

_TABLE = f"method: fixed\nselect: {{cliques: [[{CANARY}, COLUMN]]}}\nsynthesize: {{sets: 0}}\n"
_OF_ROWS, _OF_PANEL = _TABLE.replace("COLUMN", "small"), _TABLE.replace("COLUMN", "small_2024")
_OF_HOMES = "method: auto\nsynthesize: {sets: 0}\n"
_STATISTICS = (
    f"method: fixed\nselect: {{cliques: [[{CANARY}]]}}\nsynthesize: {{sets: 0}}\nanalyses:"
    f" {{formulas: [mean of value by {CANARY}, median of value by {CANARY}], share: 0.8}}\n"
)
_FORMULAS = tuple(f"value ~ group{number}" for number in (1, 2, 3))
_REGRESSIONS = (
    f"method: auto\nanalyses: {{formulas: {json.dumps(_FORMULAS)}, share: 0.8}}\n"
    "synthesize: {sets: 2}\n"
)
_COUNTS = (f"count by {CANARY}, small", f"count by {CANARY}")
_PERSON = Persons(3, above=3)


def _run(route: Route, file: CanaryFile, epsilon: int) -> Case:
    return Case(route=route, file=file, epsilon=Fraction(epsilon), delta=_DELTA, noise="gaussian")


def _from_files(asks: str, file: CanaryFile, epsilon: int = 4) -> Case:
    return _run(FromFiles(asks=asks), file, epsilon)


def _desk(questions: Sequence[str], file: CanaryFile, epsilon: int) -> Case:
    return _run(FromDesk(questions=tuple(questions)), file, epsilon)


_RUNS = {
    "table, rows": _from_files(_OF_ROWS, table_file(4_000)),
    "table, persons": _from_files(_OF_ROWS, table_file(4_000, unit=_PERSON)),
    "table, persons, replace-one": _from_files(
        _OF_ROWS, table_file(2_000, unit=_PERSON, neighbours="replace-one")
    ),
    "table, households": _from_files(_OF_HOMES, table_file(4_000, unit=Households(3, above=2))),
    "table, households, replace-one": _from_files(
        _OF_HOMES, table_file(2_000, unit=Households(3, above=2), neighbours="replace-one")
    ),
    "table, panel": _from_files(_OF_PANEL, table_file(4_000, unit=Panel(above=1))),
    "table, panel, replace-one": _from_files(
        _OF_PANEL, table_file(2_000, unit=Panel(above=1), neighbours="replace-one")
    ),
    "statistics, persons": _from_files(_STATISTICS, statistics_file(1_500, unit=_PERSON)),
    "statistics, persons, replace-one": _from_files(
        _STATISTICS, statistics_file(750, unit=_PERSON, neighbours="replace-one")
    ),
    "regressions, rows": _from_files(_REGRESSIONS, regression_file(44, columns=3, unit=ROWS), 40),
    "regressions, persons": _from_files(
        _REGRESSIONS, regression_file(44, columns=3, unit=_PERSON), 40
    ),
    "regressions, persons, replace-one": _from_files(
        _REGRESSIONS,
        regression_file(44, columns=3, unit=_PERSON, neighbours="replace-one"),
        40,
    ),
    "desk's table, persons": _desk(_COUNTS, table_file(3_000, unit=_PERSON), 1),
    "desk's table, persons, replace-one": _desk(
        _COUNTS,
        table_file(1_500, unit=_PERSON, neighbours="replace-one"),
        1,
    ),
    "desk's regressions, persons": _desk(
        _FORMULAS, regression_file(44, columns=3, unit=_PERSON), 20
    ),
}
"""Every unit and every question, through the real run."""

CASES = {**_METHODS, **_RUNS}
IN_MEMORY, FROM_FILES = tuple(_METHODS), tuple(_RUNS)
