"""The best guarantee that can be published of a finished release, and why it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_core.accounting.currency import Currency
from dp_core.accounting.events import Event
from dp_core.accounting.loss_distribution import THEOREM, tightest_epsilon
from dp_core.privacy import Neighbours


@dataclass(frozen=True, slots=True)
class Statement:
    """One guarantee of a release.

    Attributes:
        epsilon: Rounded up.
        delta: 0 for pure differential privacy.
        theorem: Why it holds.
    """

    epsilon: Fraction
    delta: Fraction
    theorem: str


def tightest(
    events: Sequence[Event],
    neighbours: Neighbours,
    currency: Currency,
    enforced: tuple[Fraction, Fraction],
    *,
    fixed_beforehand: bool,
) -> Statement:
    """Return the smallest epsilon that is known to hold at the release's delta.

    The best of: what was enforced; what the currency's total implies, which was fixed before the
    data were touched; and if all events were fixed beforehand, what the sum of their costs implies,
    and their privacy loss distribution. Of two with the same epsilon the smaller delta wins.

    A release enforced with delta 0 keeps delta 0: a pure guarantee holds with certainty and needs
    no choice of a delta, which is why it is the one to quote. A second statement at a small delta
    (`at_delta`) tells the technical reader how much less is lost except with that probability: of
    1,000 equal tables at a total of 1 it is 0.12 at 1e-6. It is of use where many releases are to
    be added up or compared with Gaussian ones. It adds to the first and never takes its place.

    Args:
        events: All of the release; every noise that was drawn.
        neighbours: Of the guarantee.
        currency: What the release paid in, with the total that was fixed.
        enforced: Epsilon and delta of the release.
        fixed_beforehand: Every event's kind and noise stood in the plan before any data were read
            (which columns an event was used on may have depended on earlier results).

    Raises:
        ValueError: if the events cost more than the currency's total; then nothing is known.
    """
    epsilon, delta = enforced
    try:
        cost = sum((currency.cost(event) for event in events), Fraction(0))
    except ValueError:
        raise ValueError("An event of this release has no cost in its currency.") from None
    if cost > currency.limit:
        raise ValueError("The events cost more than the total that was fixed for the release.")
    candidates = [Statement(epsilon, delta, currency.theorem)]
    if currency.kind == "pure":
        candidates.append(Statement(currency.limit, Fraction(0), currency.theorem))
    elif delta > 0:
        totals = (currency.limit, cost) if fixed_beforehand else (currency.limit,)
        candidates += [
            Statement(currency.epsilon(total, delta), delta, currency.theorem) for total in totals
        ]
    if delta > 0 and fixed_beforehand:
        candidates += _by_losses(events, neighbours, delta)
    return min(candidates, key=lambda statement: (statement.epsilon, statement.delta))


def at_delta(
    events: Sequence[Event],
    neighbours: Neighbours,
    delta: Fraction,
    *,
    fixed_beforehand: bool,
) -> Statement | None:
    """Return a second statement at a delta of the reader's choice, None if none is known.

    Args:
        events: All of the release.
        neighbours: Of the guarantee.
        delta: Above 0.
        fixed_beforehand: As for `tightest`; without it there is none.
    """
    found = _by_losses(events, neighbours, delta) if fixed_beforehand else []
    return found[0] if found else None


def _by_losses(events: Sequence[Event], neighbours: Neighbours, delta: Fraction) -> list[Statement]:
    try:
        return [Statement(tightest_epsilon(events, neighbours, delta), delta, THEOREM)]
    except ValueError:  # no loss distribution is known: the other statements stand
        return []
