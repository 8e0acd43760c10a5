"""What a release states about the ledger: where it stands there, and what its accounts allow."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the last receipt stands in the ledger's chain.

    Attributes:
        link: Hash of its entry and of all entries before it; salted, so it tells nothing else.
        public_key: Key of the ledger, 64 hex digits; None where it is not signed.
        signature: By that key, of the last receipt's hash and the link; None as above.
    """

    link: str
    public_key: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What an account that paid allows for everything ever released from it.

    Attributes:
        account: Name.
        composition: How its releases add up.
        epsilon, delta: Total when the release was settled.
        own_delta: Part of delta for mechanisms that fail with a probability of their own.
        opened: Day of opening.
        changed: Days on which the total was raised or the composition changed, with what held
            from then on.
    """

    account: str
    composition: str
    epsilon: Fraction
    delta: Fraction
    own_delta: Fraction
    opened: datetime.date
    changed: tuple[tuple[datetime.date, str, str, Fraction, Fraction], ...] = ()
