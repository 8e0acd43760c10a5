"""How the releases of one account add up: `basic` or `zcdp`, in exact amounts.

- `basic`: the releases' own (epsilon, delta) are summed (Dwork et al. 2006). It holds for any
  mixture of releases, also when each is chosen by looking at those before (Rogers, Roth, Ullman &
  Vadhan 2016).
- `zcdp`: the true rho of every event is summed, and converted once for the whole account (Bun &
  Steinke 2016; Canonne, Kamath & Steinke 2020). Choosing by looking is sound here too, up to a
  total that was fixed at opening (Feldman & Zrnic 2021; Whitehouse et al. 2023). Of n equal
  releases the epsilon then grows little faster than the square root of n, as long as it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args

from dp_core.documents.exact import exact_fraction
from dp_core.wall.accounting.currency import Currency, Kind, largest_limit
from dp_core.wall.accounting.curves import zcdp_epsilon, zcdp_limit
from dp_core.wall.accounting.events import Event

Composition = Literal["basic", "zcdp"]

RHO_UNITS = 10**15
"""Units of one rho, to which the rho of each event is rounded up when a release is settled.

The exact rho of an event has the square of a float's digits below the line. A sum of many would
grow by as many digits for each.
"""

SMALLEST_EPSILON, LARGEST_EPSILON = -9, 6
"""Powers of ten between which `largest_epsilon` looks."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What releases of an account add up in; exact.

    Attributes:
        main: Epsilon (basic) or rho (zcdp).
        delta: Delta (basic) or the own delta of events (zcdp).
    """

    main: Fraction
    delta: Fraction

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.delta + other.delta)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.delta - other.delta)

    def times(self, count: int) -> Amount:
        """Return the sum of so many of it."""
        return Amount(self.main * count, self.delta * count)

    def within(self, other: Amount) -> bool:
        """Return whether neither part is larger than the other's."""
        return self.main <= other.main and self.delta <= other.delta

    def lesser(self, other: Amount) -> Amount:
        """Return the smaller of each part: what is within both."""
        return Amount(min(self.main, other.main), min(self.delta, other.delta))

    def to_json(self) -> list[str]:
        """Return both parts as exact fractions in text.

        >>> Amount(Fraction(1, 2), Fraction(0)).to_json()
        ['1/2', '0']
        """
        return [str(self.main), str(self.delta)]

    @classmethod
    def from_json(cls, values: object) -> Amount:
        """Return the amount that `to_json` wrote.

        Raises:
            ValueError: if it is not one, or not written as `to_json` writes it.
        """
        if isinstance(values, list) and [type(value) for value in values] == [str, str]:
            try:
                amount = cls(exact_fraction(values[0]), exact_fraction(values[1]))
            except (ValueError, ZeroDivisionError):
                raise ValueError("An amount is two exact fractions in text.") from None
            if amount.to_json() == values:
                return amount
        raise ValueError("An amount is two exact fractions in text.")


NOTHING = Amount(Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the charges of a release: all that any composition asks of them.

    Attributes:
        charges: Their number.
        cost: In the release's currency.
        rho: Of their events, each rounded up to one of `RHO_UNITS`.
        own_delta: Of their events.
    """

    charges: int
    cost: Fraction
    rho: Fraction
    own_delta: Fraction

    def plus(self, cost: Fraction, event: Event) -> Tally:
        """Return the sums with one more charge."""
        rho = event.rho()
        units = -(-rho.numerator * RHO_UNITS // rho.denominator)
        return Tally(
            self.charges + 1,
            self.cost + cost,
            self.rho + Fraction(units, RHO_UNITS),
            self.own_delta + event.own_delta(),
        )


NO_CHARGES = Tally(0, Fraction(0), Fraction(0), Fraction(0))


def tally_of(charges: Sequence[tuple[Fraction, Event]]) -> Tally:
    """Return the sums over (cost, event) of every charge."""
    tally = NO_CHARGES
    for cost, event in charges:
        tally = tally.plus(cost, event)
    return tally


@dataclass(frozen=True, slots=True)
class Terms:
    """What an account fixes at its opening about its total.

    Attributes:
        composition: How releases add up.
        epsilon, delta: Guarantee for everything ever released from it.
        own_delta: Part of `delta` set aside for mechanisms that fail with a probability of their
            own; only for zcdp. The rest is what rho is converted at.

    Raises:
        ValueError: if no account can have these terms.
    """

    composition: Composition
    epsilon: Fraction
    delta: Fraction
    own_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.composition not in get_args(Composition):
            raise ValueError(f"Composition is basic or zcdp, not {self.composition!r}.")
        if self.epsilon <= 0:
            raise ValueError(f"An account's epsilon is positive, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"An account's delta is from 0 to below 1, got {self.delta}.")
        if self.composition == "basic":
            if self.own_delta != 0:
                raise ValueError("Only a zcdp account sets delta aside for events' own delta.")
        elif not 0 <= self.own_delta < self.delta:
            raise ValueError(
                "A zcdp account needs a positive delta, and sets aside less than the whole of it,"
                f" got {self.own_delta} of {self.delta}."
            )

    @property
    def conversion_delta(self) -> Fraction:
        """What rho is converted at (zcdp)."""
        return self.delta - self.own_delta

    @property
    def limit(self) -> Amount:
        """The total; rho is rounded down."""
        return self.allowance(self.epsilon, self.delta if self.is_basic else self.own_delta)

    @property
    def is_basic(self) -> bool:
        """Whether epsilons and deltas are summed."""
        return self.composition == "basic"

    def allowance(self, epsilon: Fraction, delta: Fraction) -> Amount:
        """Return what keeps to `epsilon`: of the account, or of a part of it such as a year.

        Args:
            epsilon: Positive.
            delta: Delta (basic) or own delta (zcdp) of that part.
        """
        main = epsilon if self.is_basic else _rho(epsilon, self.conversion_delta)
        return Amount(main, delta)

    def promised(self, currency: Currency, epsilon: Fraction, delta: Fraction) -> Amount:
        """Return what reserving a whole release takes: no charges within its plan come to more.

        Args:
            currency: What the release pays in, and its total.
            epsilon: Of the release.
            delta: Of the release.

        Privacy:
            In a zcdp account, by the currency of the release:

            - `zcdp`: the sum of costs is the sum of rho.
            - `gaussian`: an event costs D^2 / (2 (s^2 - 2)), more than its rho D^2 / (2 s^2).
            - `pure`: an event of epsilon e has rho at most e^2/2, and the squares sum to at most
              the square of the sum: all in one event is the worst case.

            The own delta is what the release set aside for thresholds, of which the account has a
            part by itself: the events are then d-approximate zCDP with d the sum of these (Bun &
            Steinke 2016, section 8), and both sums are filtered (Whitehouse et al. 2023). The rest
            of the release's delta is what its own statement is converted at, and no cost here: the
            account converts the same events itself, once, at its own delta.
        """
        if self.is_basic:
            return Amount(epsilon, delta)
        rho = currency.limit**2 / 2 if currency.kind == "pure" else currency.limit
        return Amount(rho, currency.own_delta)

    def spent(
        self, tally: Tally, currency: Currency, epsilon: Fraction, delta: Fraction, *, seen: bool
    ) -> Amount:
        """Return what a release that ends has spent; the rest of its promise goes back.

        Args:
            tally: Sums over its charges.
            currency: What the release paid in, and its total.
            epsilon: Of the release.
            delta: Of the release.
            seen: Whether any result was stored, committed or not.

        Raises:
            ValueError: if the charges come to more than was promised.

        Privacy:
            Basic, pure epsilon: exactly the charges, with their own deltas. On a curve, stopping
            after a result was seen returns nothing: the epsilon of what was charged holds for a
            total fixed beforehand, not for one chosen by looking, which can fail with a multiple of
            delta (Rogers, Roth, Ullman & Vadhan 2016: a filter is no odometer).

            Zcdp: the true rho of the events, always. The claim of the account is for its whole
            total, which was fixed at opening, and a filter holds for any sequence of events chosen
            by looking as long as their rho sums to no more. Stopping one release and spending the
            rest on another is such a choice.

            A result without any charge means that the ledger lost charges, as a restored backup
            does: the whole promise stays spent.
        """
        whole = self.promised(currency, epsilon, delta)
        if tally.cost > currency.limit:
            raise ValueError("The charges of a release come to more than its plan's total.")
        if not tally.charges:
            return whole if seen else NOTHING
        if tally.own_delta > currency.own_delta:
            raise ValueError("The events of a release fail with more than was promised for it.")
        if not self.is_basic:
            least = tally.rho - Fraction(tally.charges, RHO_UNITS)
            if least > whole.main:
                raise ValueError("The events of a release come to more than was promised for it.")
            return Amount(min(tally.rho, whole.main), tally.own_delta)
        if currency.kind == "pure":
            return Amount(tally.cost, tally.own_delta)
        if seen or tally.cost == currency.limit:
            return whole
        return Amount(min(epsilon, currency.epsilon(tally.cost, delta)), delta)

    def epsilon_of(self, amount: Amount) -> Fraction:
        """Return the epsilon that an amount comes to by itself, for people; 0 for less than none.

        In a zcdp account these do not add up: the epsilon of what is left is not the account's
        less that of what is used.
        """
        if amount.main <= 0:
            return Fraction(0)
        return amount.main if self.is_basic else zcdp_epsilon(amount.main, self.conversion_delta)


def of_kind(
    kind: Kind, delta: Fraction, own_delta: Fraction = Fraction(0)
) -> Callable[[Fraction], Currency | None]:
    """Return the function from a release's epsilon to its currency, where the kind is fixed.

    Args:
        kind: Of the currency.
        delta: Of the release.
        own_delta: Part of it that is set aside for thresholds.
    """

    def currency_of(epsilon: Fraction) -> Currency | None:
        limit = largest_limit(kind, epsilon, delta - own_delta)
        return Currency(kind, limit, own_delta) if limit > 0 else None

    return currency_of


def largest_epsilon(
    terms: Terms,
    left: Amount,
    delta: Fraction,
    currency_of: Callable[[Fraction], Currency | None],
) -> Fraction:
    """Return the largest epsilon of a release that still fits, of 6 digits; 0 if none does.

    The promise of a release of that epsilon fits in `left`, and that of the next larger number of 6
    digits does not. In a basic account it is exactly what is left where that is as short to write.
    Where a smaller epsilon makes the plan choose another kind of currency, there can be more than
    one such number; this is one of them.

    Args:
        terms: Of the account.
        left: What may still be promised; negative parts count as nothing.
        delta: Of the release, as it stands in its spec.
        currency_of: From a release's epsilon to what it would pay in, None where no noise gives
            that epsilon (`of_kind` where the kind is known).
    """

    def fits(epsilon: Fraction) -> bool:
        currency = currency_of(epsilon)
        return currency is not None and terms.promised(currency, epsilon, delta).within(left)

    if left.main <= 0 or left.delta < 0:
        return Fraction(0)
    if terms.is_basic:
        # What is asked is what is promised, so there is nothing to search.
        epsilon = short(left.main)
        return epsilon if fits(epsilon) else Fraction(0)
    for power in range(LARGEST_EPSILON, SMALLEST_EPSILON - 1, -1):
        if fits(Fraction(10) ** power):
            break
    else:
        return Fraction(0)
    unit = Fraction(10) ** (power - 5)
    low, high = 10**5, 10**6
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle * unit):
            low = middle
        else:
            high = middle
    return low * unit


def most_sets(terms: Terms, left: Amount, asked: Currency, delta: Fraction, sets: int) -> int:
    """Return how many sets of a release in split mode fit with each set's noise as planned.

    Each set is measured at 1/sets of the currency's limit, so that limit is what has to shrink in
    proportion; epsilon on a curve shrinks more slowly. In pure epsilon the limit is epsilon, and
    the sets fit at exactly their part of it. On a curve they fit at the epsilon that
    `largest_epsilon` gives.

    Args:
        terms: Of the account.
        left: What may still be promised.
        asked: What the release would pay in with all its sets.
        delta: Of the release.
        sets: How many it asks for.
    """
    if asked.kind == "pure":

        def fits(count: int) -> bool:
            part = replace(asked, limit=asked.limit * count / sets)
            return terms.promised(part, part.limit, delta).within(left)

        return next((count for count in range(sets, 0, -1) if fits(count)), 0)
    currency_of = of_kind(asked.kind, delta, asked.own_delta)
    epsilon = largest_epsilon(terms, left, delta, currency_of)
    fitting = currency_of(epsilon) if epsilon > 0 else None
    return 0 if fitting is None else min(sets, int(sets * fitting.limit // asked.limit))


@lru_cache(maxsize=256)
def _rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    return zcdp_limit(epsilon, delta)


def six_digits(value: Fraction) -> Fraction:
    """Return a value rounded down to 6 digits, so that what fits still fits when it is shown."""
    down = Context(prec=6, rounding=ROUND_FLOOR)
    return Fraction(down.divide(Decimal(value.numerator), Decimal(value.denominator)))


def short(value: Fraction) -> Fraction:
    """Return a value rounded down to 6 digits, or itself where its fraction is as short as that.

    >>> short(Fraction(2, 3)), short(Fraction(2000001, 3000001))
    (Fraction(2, 3), Fraction(333333, 500000))
    """
    return value if len(str(value)) <= len("0.123456") else six_digits(value)
