"""All attacks on one synthetic file, with what differential privacy permits beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.attacks.anonymity_attacks import (
    AttackResult,
    inference,
    linkability,
    singling_out,
)
from dp_core.lab.attacks.membership import (
    Make,
    MembershipResult,
    ShadowResult,
    distance_attack,
    shadow_attack,
)
from dp_core.lab.field_scores.code_values import CodeValues, random_records, records_at, resample

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
        permitted: Largest advantage of a membership attack that the guarantee permits.
        distance: Membership by distance.
        distance_reference: The same against the members themselves drawn with replacement, which
            protect nobody: what the attack finds where there is something to find.
        shadow: Membership by shadow files; None if it was not asked for.
        shadow_reference: The same if the method is a resample of the records.
        singling: Singling out; None if no predicate is met by one synthetic record.
        linking: Linkability; None for one column.
        inferring: Inference, one for each secret column.
    """

    members: int
    control: int
    permitted: float | None
    distance: MembershipResult
    distance_reference: MembershipResult
    shadow: ShadowResult | None
    shadow_reference: ShadowResult | None
    singling: AttackResult | None
    linking: AttackResult | None
    inferring: tuple[AttackResult, ...]

    def headline(self) -> dict[str, float | None]:
        """Return the numbers that one table shows, by name; None for what does not apply."""
        risks = [one.risk.value for one in self.inferring if not one.weak]
        return {
            "membership": self.distance.advantage.value,
            "shadow": self.shadow.advantage.value if self.shadow else None,
            "permitted": self.permitted,
            "singling": self.singling.risk.value if self.singling else None,
            "linking": self.linking.risk.value if self.linking else None,
            "inferring": max(risks, default=None),
        }

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "members": self.members,
            "control": self.control,
            "permitted_advantage": self.permitted,
            "membership_by_distance": asdict(self.distance),
            "membership_by_distance_of_a_resample": asdict(self.distance_reference),
            "membership_by_shadow": asdict(self.shadow) if self.shadow else None,
            "membership_by_shadow_of_a_resample": asdict(self.shadow_reference)
            if self.shadow_reference
            else None,
            "singling_out": self.singling.to_json() if self.singling else None,
            "linkability": self.linking.to_json() if self.linking else None,
            "inference": [one.to_json() for one in self.inferring],
        }


def attack_audit(
    members: Dataset,
    control: Dataset,
    synthetic: Dataset,
    values: CodeValues,
    *,
    permitted: float | None = None,
    make: Make | None = None,
    files: int = SHADOW_FILES,
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
        files: Shadow files; 30 by default.
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
    sides = (members, control, searched, values)
    shadow = shadow_reference = None
    if make is not None:
        pool = Dataset(members.domain, np.concatenate([members.codes, control.codes], axis=1))
        common = {"files": files, "targets": min(SHADOW_TARGETS, pool.rows // 8)}
        shadow = shadow_attack(make, pool, values, rng=rng, **common)

        def resampled(part: NDArray[np.bool_], _: int) -> Dataset:
            return resample(records_at(pool, part), rng)

        shadow_reference = shadow_attack(resampled, pool, values, rng=rng, **common)
    return AttackAudit(
        members=members.rows,
        control=control.rows,
        permitted=permitted,
        distance=distance_attack(targets[0], targets[1], searched, values, rng=rng),
        distance_reference=distance_attack(targets[0], targets[1], reference, values, rng=rng),
        shadow=shadow,
        shadow_reference=shadow_reference,
        singling=singling_out(*sides, rng=rng),
        linking=linkability(*sides, rng=rng) if len(names) > 1 else None,
        inferring=inference(*sides, secrets=names[-SECRETS:], rng=rng) if len(names) > 1 else (),
    )
