"""All attacks on one synthetic file, with what differential privacy permits beside them.

Singling out, linkability and inference are the attacks of the Article 29 Working Party.
Definitions and the correction by a control group are those of Giomi, Boenisch, Wehmeyer & Tasnadi
(2023), "A unified framework for quantifying privacy risk in synthetic data", PoPETs 2023(2), which
the package anonymeter implements. Each attack is made on members, on the control, and by an
attacker who guesses without the synthetic file (the baseline). The risk is the excess over the
control. An attack that does no better than the baseline is too weak to say anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.attacks.membership import (
    Attacked,
    Estimate,
    Make,
    MembershipResult,
    Rate,
    RecordDistances,
    ShadowResult,
    distance_attack,
    residual_risk,
    shadow_attack,
)
from dp_core.lab.field_scores.code_values import CodeValues, random_records, records_at, resample
from dp_core.text.pages.answer import fields_of

TARGETS = 1_000
"""Members, and controls, of the membership attack by distance."""
SECRETS = 10
"""Columns that are inferred: the last ones of the schema."""
MOST_SYNTHETIC = 20_000
"""Synthetic records that an attack searches; of more, a random sample."""
SHADOW_FILES = 30
"""Files of the shadow attack."""
SHADOW_TARGETS = 20
"""Its targets."""
FEWEST = 100
"""Members, and controls, that an audit needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackAudit:
    """Results of all attacks.

    Attributes:
        members, control: Number of records that were attacked, and of those in the control.
        permitted_advantage: Largest advantage of a membership attack that the guarantee permits.
        membership_by_distance: Membership by distance.
        membership_by_distance_of_a_resample: The same against the members themselves drawn with
            replacement, which protect nobody: what the attack finds where there is something to
            find.
        membership_by_shadow: Membership by shadow files; None if it was not asked for.
        membership_by_shadow_of_a_resample: The same if the method is a resample of the records.
        singling_out: Singling out; None if no predicate is met by one synthetic record.
        linkability: Linkability; None for one column.
        inference: Inference, one for each secret column.
    """

    members: int
    control: int
    permitted_advantage: float | None
    membership_by_distance: MembershipResult
    membership_by_distance_of_a_resample: MembershipResult
    membership_by_shadow: ShadowResult | None
    membership_by_shadow_of_a_resample: ShadowResult | None
    singling_out: AttackResult | None
    linkability: AttackResult | None
    inference: tuple[AttackResult, ...]

    def headline(self) -> dict[str, float | None]:
        """Return the numbers that one table shows, by name; None for what does not apply."""
        risks = [one.risk.value for one in self.inference if not one.weak]
        shadow, singled, linked = self.membership_by_shadow, self.singling_out, self.linkability
        return {
            "membership": self.membership_by_distance.advantage.value,
            "shadow": shadow.advantage.value if shadow else None,
            "permitted": self.permitted_advantage,
            "singling": singled.risk.value if singled else None,
            "linking": linked.risk.value if linked else None,
            "inferring": max(risks, default=None),
        }

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return fields_of(self)


def attack_audit(
    members: Dataset,
    control: Dataset,
    synthetic: Dataset,
    values: CodeValues,
    *,
    permitted: float | None = None,
    make: Make | None = None,
    seed: int = 0,
) -> AttackAudit:
    """Carry out all attacks.

    Args:
        members: Records from which the synthetic ones were made; at least 100.
        control: Records of the same population from which they were not; at least 100.
        synthetic: The synthetic records; not empty.
        values: The ordered columns and their numbers.
        permitted: Largest advantage that the guarantee permits; None for no guarantee.
        make: Makes a synthetic file of some members and controls, numbered in this order, for the
            shadow attack; None (the default) leaves that attack out.
        seed: Seed of all random choices; 0 by default. Noise that `make` adds has none.

    Raises:
        ValueError: if there are too few records.
    """
    if min(members.rows, control.rows) < FEWEST or not synthetic.rows:
        raise ValueError(f"An attack audit needs {FEWEST} members, {FEWEST} controls, and a set.")
    rng = np.random.default_rng([seed, 20_261_126])
    searched = random_records(synthetic, MOST_SYNTHETIC, rng)
    number = min(TARGETS, members.rows, control.rows)
    targets = [random_records(data, number, rng) for data in (members, control)]
    reference = random_records(resample(members, rng), MOST_SYNTHETIC, rng)
    names = members.domain.columns
    attacked = Attacked(members, control, searched, values)
    near = Attacked(targets[0], targets[1], searched, values)
    shadow = shadow_reference = None
    if make is not None:
        pool = Dataset(members.domain, np.concatenate([members.codes, control.codes], axis=1))
        common = {"files": SHADOW_FILES, "targets": min(SHADOW_TARGETS, pool.rows // 8)}
        shadow = shadow_attack(make, pool, values, rng=rng, **common)

        def draw_again(part: NDArray[np.bool_], _: int) -> Dataset:
            return resample(records_at(pool, part), rng)

        shadow_reference = shadow_attack(draw_again, pool, values, rng=rng, **common)
    return AttackAudit(
        members=members.rows,
        control=control.rows,
        permitted_advantage=permitted,
        membership_by_distance=distance_attack(near, rng=rng),
        membership_by_distance_of_a_resample=distance_attack(
            replace(near, synthetic=reference), rng=rng
        ),
        membership_by_shadow=shadow,
        membership_by_shadow_of_a_resample=shadow_reference,
        singling_out=singling_out(attacked, rng=rng),
        linkability=linkability(attacked, rng=rng) if len(names) > 1 else None,
        inference=(
            inference(attacked, secrets=names[-SECRETS:], rng=rng) if len(names) > 1 else ()
        ),
    )


ATTEMPTS = 500
"""Attempts of each attack."""
SINGLED_BY = 3
"""Columns of a predicate that singles out."""
_MOST_TRIES = 200
"""Predicates that are tried for each one that is wanted."""
_MOST_REPEATS = 2_000
"""Largest number of consecutive draws of predicates already tried; few or none are then left."""


@dataclass(frozen=True, slots=True)
class AttackResult:
    """Success of one attack.

    Attributes:
        name: Name of the attack, or of its secret column.
        members: Success on members.
        control: Success on the control.
        baseline: Success of guessing.
    """

    name: str
    members: Rate
    control: Rate
    baseline: Rate

    @property
    def risk(self) -> Estimate:
        """Excess over the control, from 0 to 1, with its 95 % interval."""
        return residual_risk(self.members, self.control)

    @property
    def weak(self) -> bool:
        """Whether the attack does no better than guessing, so that its risk says nothing."""
        return self.members.value <= self.baseline.value

    def to_json(self) -> dict[str, Any]:
        """Return the fields, with the risk and whether the attack is weak."""
        return fields_of(self) | {"risk": self.risk, "weak": self.weak}


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of one condition for each of some columns.

    Attributes:
        columns: Axes of the columns.
        codes: For each column, which of its codes meet the condition, shape (size,).
    """

    columns: tuple[int, ...]
    codes: tuple[NDArray[np.bool_], ...]

    def count(self, data: Dataset) -> int:
        """Return how many records meet all conditions."""
        inside = np.ones(data.rows, dtype=bool)
        for axis, codes in zip(self.columns, self.codes, strict=True):
            inside &= codes[data.codes[axis]]
        return int(inside.sum())


def singling_out(attacked: Attacked, *, rng: np.random.Generator) -> AttackResult | None:
    """Return how often a predicate that only one synthetic record meets is met by only one member.

    A predicate takes a synthetic record and some of its columns: equal for a nominal column, at
    least or at most for an ordered one, away from the median. The baseline's predicates have random
    levels. Members and control are of equal number, because the chance of meeting one record
    depends on it. Giomi et al. (2023), Section 4.1, multivariate.

    Args:
        attacked: What is attacked.
        rng: Generator of the predicates.

    Returns:
        The result; None if no predicate is met by one synthetic record.
    """
    synthetic, values = attacked.synthetic, attacked.values
    sides = (attacked.members, attacked.control)
    number = min(data.rows for data in sides)
    members, control = (random_records(data, number, rng) for data in sides)
    columns = min(SINGLED_BY, len(synthetic.domain))
    asked = _distinct_predicates(synthetic, values, columns, rng)
    if not asked:
        return None
    guessed = [_guess(values, columns, rng) for _ in asked]
    hits = [
        sum(one.count(data) == 1 for one in made)
        for made, data in ((asked, members), (asked, control), (guessed, members))
    ]
    rates = [Rate(found, len(asked)) for found in hits]
    return AttackResult("singling out", *rates)


def _distinct_predicates(
    synthetic: Dataset,
    values: CodeValues,
    columns: int,
    rng: np.random.Generator,
) -> list[Predicate]:
    """Return different predicates that one synthetic record meets, at most `ATTEMPTS`."""
    domain = synthetic.domain
    middle = {}
    for name in values.ordered:
        found_values = values.values[name][synthetic.column(name)]
        if not np.isnan(found_values).all():
            middle[name] = float(np.nanmedian(found_values))

    def condition(axis: int, code: int) -> NDArray[np.bool_]:
        """Return the codes of a column that meet the condition of a record's code."""
        name = domain.columns[axis]
        numbers = values.values.get(name)
        met: NDArray[np.bool_]
        if numbers is None or np.isnan(numbers[code]) or name not in middle:
            met = np.arange(domain.sizes[axis]) == code
        elif numbers[code] > middle[name]:
            met = numbers >= numbers[code]
        else:
            met = numbers <= numbers[code]
        return met

    found: dict[tuple[object, ...], Predicate] = {}
    tried: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    repeats = 0
    for _ in range(ATTEMPTS * _MOST_TRIES):
        if len(found) == ATTEMPTS or repeats == _MOST_REPEATS:
            break
        record = synthetic.codes[:, rng.integers(synthetic.rows)]
        axes = np.sort(rng.choice(len(domain), size=columns, replace=False))
        one = tuple(axes.tolist()), tuple(record[axes].tolist())
        if one in tried:
            repeats += 1
            continue
        repeats = 0
        tried.add(one)
        made = Predicate(one[0], tuple(condition(*each) for each in zip(*one, strict=True)))
        key = (made.columns, *(each.tobytes() for each in made.codes))
        if key not in found and made.count(synthetic) == 1:
            found[key] = made
    return list(found.values())


def _guess(values: CodeValues, columns: int, rng: np.random.Generator) -> Predicate:
    """Return a predicate with random columns, conditions and levels."""
    names, sizes = values.domain.columns, values.domain.sizes
    axes = np.sort(rng.choice(len(names), size=columns, replace=False))
    codes = []
    for axis in axes:
        code, numbers = int(rng.integers(sizes[axis])), values.values.get(names[axis])
        everything = np.arange(sizes[axis])
        if numbers is None or np.isnan(numbers[code]):
            codes.append((everything == code) if rng.random() < 0.5 else (everything != code))
        else:
            kinds = (
                numbers == numbers[code],
                numbers != numbers[code],
                numbers > numbers[code],
                numbers < numbers[code],
                numbers >= numbers[code],
                numbers <= numbers[code],
            )
            codes.append(kinds[rng.integers(len(kinds))])
    return Predicate(tuple(int(axis) for axis in axes), tuple(codes))


def linkability(attacked: Attacked, *, rng: np.random.Generator) -> AttackResult:
    """Return how often the synthetic file links two halves of a record.

    The attacker has two files of the same persons, each with every second column. Two of their
    records are linked if they have the same nearest synthetic neighbour. The baseline draws the
    neighbours. Giomi et al. (2023), Section 4.2.

    Args:
        attacked: What is attacked.
        rng: Generator of the targets, of ties and of the baseline.
    """
    synthetic, members = attacked.synthetic, attacked.members
    names = members.domain.columns
    halves = [
        RecordDistances(synthetic, attacked.values, columns)
        for columns in (names[::2], names[1::2])
    ]

    def link_rate(data: Dataset) -> Rate:
        targets = random_records(data, ATTEMPTS, rng)
        return _agreement_rate(*(half.nearest(targets, rng=rng) for half in halves))

    size = min(ATTEMPTS, members.rows)
    lucky = _agreement_rate(*(rng.integers(0, synthetic.rows, size) for _ in range(2)))
    return AttackResult("linkability", link_rate(members), link_rate(attacked.control), lucky)


def _agreement_rate(first: NDArray[np.int64], second: NDArray[np.int64]) -> Rate:
    return Rate(int((first == second).sum()), first.size)


def inference(
    attacked: Attacked, *, secrets: Sequence[str], rng: np.random.Generator
) -> tuple[AttackResult, ...]:
    """Return how often the nearest synthetic record has the target's level of a secret column.

    The attacker knows all other columns of the target. The baseline takes the level of a random
    synthetic record. Giomi et al. (2023), Section 4.3. A number counts as inferred if its bin is
    right; anonymeter allows 5 %.

    Args:
        attacked: What is attacked.
        secrets: Columns to infer, one after the other.
        rng: Generator of the targets, of ties and of the baseline.

    Returns:
        One result for each secret.
    """
    synthetic = attacked.synthetic
    distances = RecordDistances(synthetic, attacked.values)
    sides = [random_records(data, ATTEMPTS, rng) for data in (attacked.members, attacked.control)]
    hits = [dict.fromkeys(secrets, 0) for _ in sides]
    for targets, found in zip(sides, hits, strict=True):
        for part, whole in distances.blocks(targets):
            noise = rng.random(whole.shape, dtype=np.float32) * np.float32(1e-4)
            for name in secrets:
                rest = whole - distances.of_column(name, targets, part) + noise
                guess = synthetic.column(name)[rest.argmin(axis=1)]
                found[name] += int((guess == targets.column(name)[part]).sum())
    results = []
    for name in secrets:
        drawn = synthetic.column(name)[rng.integers(0, synthetic.rows, sides[0].rows)]
        lucky = int((drawn == sides[0].column(name)).sum())
        results.append(
            AttackResult(
                name,
                Rate(hits[0][name], sides[0].rows),
                Rate(hits[1][name], sides[1].rows),
                Rate(lucky, sides[0].rows),
            )
        )
    return tuple(results)
