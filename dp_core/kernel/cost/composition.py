"""How the releases of one account add up: `basic` or `zcdp`, in exact amounts.

- `basic`: the (epsilon, delta) of the releases are summed (Dwork et al. 2006). The sum is valid for
  any mixture of releases, also if each one is chosen adaptively, after seeing the earlier ones
  (Rogers, Roth, Ullman & Vadhan 2016).
- `zcdp`: the true rho of every event is summed, and the sum is converted to epsilon once for the
  whole account (Bun & Steinke 2016; Canonne, Kamath & Steinke 2020). Adaptive choices are valid up
  to a total that was fixed when the account was opened (Feldman & Zrnic 2021; Whitehouse et al.
  2023). The epsilon of n equal releases grows little faster than the square root of n while it is
  small.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from dp_core.kernel.canonical import remembered
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.curves import zcdp_epsilon, zcdp_limit
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.mechanisms.event import Event

Composition = Literal["basic", "zcdp"]

RHO_UNITS = 10**15
"""Number of units in a rho of 1; the rho of each charge is rounded up to a whole number of units.

Without rounding, each event would add the digits of a squared float to the denominator of the sum.
"""


@dataclass(frozen=True, slots=True)
class Amount:
    """An exact amount of an account's budget.

    Attributes:
        main: Epsilon (basic) or rho (zcdp).
        delta: Delta (basic) or sum of the events' own deltas (zcdp).
    """

    main: Fraction
    delta: Fraction

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.main + other.main, self.delta + other.delta)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.main - other.main, self.delta - other.delta)

    def times(self, count: int) -> Amount:
        """Return the amount multiplied by a whole number."""
        return Amount(self.main * count, self.delta * count)

    def within(self, other: Amount) -> bool:
        """Return whether both parts are at most those of `other`."""
        return self.main <= other.main and self.delta <= other.delta

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
            ValueError: if `values` is not exactly what `to_json` writes.
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
    """Sums over the charges of a release, sufficient for both compositions.

    Attributes:
        charges: Number of charges.
        cost: Sum of their costs, in the release's currency.
        rho: Sum of the rho of their events, each rounded up to a multiple of 1 / `RHO_UNITS`.
        own_delta: Sum of the own deltas of their events.
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


@dataclass(frozen=True, slots=True)
class Terms:
    """The composition and the total of an account.

    Attributes:
        composition: How releases add up.
        epsilon, delta: Guarantee for all releases of the account together.
        own_delta: Part of `delta` set aside for events with an own delta; 0 by default, and always
            0 for `basic`. Rho is converted to epsilon at the rest of `delta`.

    Raises:
        ValueError: if the composition is unknown or a value is outside its range.
    """

    composition: Composition
    epsilon: Fraction
    delta: Fraction
    own_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.composition not in get_args(Composition):
            raise ValueError(f"The composition must be basic or zcdp, not {self.composition!r}.")
        if self.epsilon <= 0:
            raise ValueError(f"An account's epsilon must be positive, not {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(
                f"An account's delta must be at least 0 and below 1, not {self.delta}."
            )
        if self.composition == "basic":
            if self.own_delta != 0:
                raise ValueError("Only a zcdp account can set delta aside for events' own deltas.")
        elif not 0 <= self.own_delta < self.delta:
            raise ValueError(
                "A zcdp account needs a positive delta, and the part of it that is set aside must"
                f" be smaller than the whole; got {self.own_delta} of {self.delta}."
            )

    @property
    def conversion_delta(self) -> Fraction:
        """The delta at which rho is converted to epsilon (zcdp)."""
        return self.delta - self.own_delta

    @property
    def limit(self) -> Amount:
        """The account's total; its rho is rounded down."""
        return self.allowance(self.epsilon, self.delta if self.is_basic else self.own_delta)

    @property
    def is_basic(self) -> bool:
        """Whether epsilons and deltas are summed."""
        return self.composition == "basic"

    def allowance(self, epsilon: Fraction, delta: Fraction) -> Amount:
        """Return the largest amount that keeps to a given epsilon.

        Args:
            epsilon: Positive bound, for the account or for a part of it such as a year.
            delta: Delta (basic) or own delta (zcdp) of the same part.

        Returns:
            `epsilon` itself (basic), or the rho that implies it at `conversion_delta` (zcdp).
        """
        main = epsilon if self.is_basic else _rho(str(epsilon), str(self.conversion_delta))
        return Amount(main, delta)

    def promised(self, currency: Currency, epsilon: Fraction, delta: Fraction) -> Amount:
        """Return the amount that a reservation takes from the account.

        It is an upper bound on the amount of any charges within the release's plan.

        Args:
            currency: Currency of the release, with its total.
            epsilon: Epsilon of the release.
            delta: Delta of the release.

        Privacy:
            A basic account takes the release's epsilon and delta. A zcdp account takes a rho that
            depends on the currency of the release:

            - `zcdp`: the sum of costs is the sum of rho.
            - `gaussian` and `mixed`: noise costs D^2 / (2 (s^2 - 2)), more than its rho
              D^2 / (2 s^2), and a choice costs more than its rho (`choice_cost`).
            - `pure`: an event of epsilon e has rho at most e^2/2. The sum of squares is at most the
              square of the sum, so the worst case is one event with the whole total.

            The own delta is the part that the release set aside for thresholds; a zcdp account has
            a separate limit for it. The events are d-approximate zCDP with d the sum of their own
            deltas (Bun & Steinke 2016, section 8), and both sums are filtered (Whitehouse et al.
            2023). The rest of the release's delta costs nothing here: it only serves to convert the
            release's own statement, and the account converts the same events once, at its own
            delta.
        """
        if self.is_basic:
            return Amount(epsilon, delta)
        rho = currency.limit**2 / 2 if currency.kind == "pure" else currency.limit
        return Amount(rho, currency.own_delta)

    def spent(
        self, tally: Tally, currency: Currency, epsilon: Fraction, delta: Fraction, *, seen: bool
    ) -> Amount:
        """Return the amount that a release has spent when it ends.

        The difference to the reserved amount returns to the account.

        Args:
            tally: Sums over the release's charges.
            currency: Currency of the release, with its total.
            epsilon: Epsilon of the release.
            delta: Delta of the release.
            seen: Whether any result was stored, committed or not.

        Raises:
            ValueError: if the charges exceed what was reserved.

        Privacy:
            *Basic account, pure currency*: exactly the charges, with their own deltas. *Basic
            account, another currency*: if a result was seen, the whole reserved amount. The epsilon
            of the charges alone is valid for a total fixed beforehand. For a total chosen after
            seeing results it can fail with a multiple of delta (Rogers, Roth, Ullman & Vadhan 2016:
            a privacy filter is not a privacy odometer). If nothing was seen, the amount is the
            epsilon of the charges alone. In the currency `mixed` that is the conversion of their
            rho: a choice is on the Gaussian curve of the whole total, not on that of the charges
            (`covered_choices`).

            *Zcdp account*: always the true rho of the events. The account's guarantee is for its
            whole total, which was fixed at opening. A filter is valid for any adaptively chosen
            sequence of events whose rho sums to at most that total. Stopping one release and
            spending the rest on another one is such a choice.

            A stored result without any charge means that the ledger lost charges, for example
            because a backup was restored. The whole reserved amount then stays spent.
        """
        whole = self.promised(currency, epsilon, delta)
        if tally.cost > currency.limit:
            raise ValueError("The charges of the release exceed the total of its plan.")
        if not tally.charges:
            return whole if seen else NOTHING
        if tally.own_delta > currency.own_delta:
            raise ValueError("The events' own deltas exceed what was reserved for the release.")
        if not self.is_basic:
            least = tally.rho - Fraction(tally.charges, RHO_UNITS)
            if least > whole.main:
                raise ValueError("The rho of the events exceeds what was reserved for the release.")
            return Amount(min(tally.rho, whole.main), tally.own_delta)
        if currency.kind == "pure":
            return Amount(tally.cost, tally.own_delta)
        if seen or tally.cost == currency.limit:
            return whole
        alone = (
            zcdp_epsilon(tally.rho, delta)
            if currency.kind == "mixed"
            else currency.epsilon(tally.cost, delta)
        )
        return Amount(min(epsilon, alone), delta)


@remembered(256)
def _rho(epsilon: str, delta: str) -> Fraction:
    return zcdp_limit(Fraction(epsilon), Fraction(delta))
