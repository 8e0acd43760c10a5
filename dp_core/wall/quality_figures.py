"""Quality figures in three tiers, each a type of its own.

| tier | made from | may be published | decides about publication |
|---|---|---|---|
| `Public` | noisy tables and synthetic sets | yes | yes |
| `Charged` | the data, through the curator and paid for in the ledger | yes | yes |
| `Internal` | the data, without noise | never | never; a person may decide, outside epsilon |

`dp_core.plan.quality_checks.public_figures` makes `Public` figures. Only the curator makes
`Charged` figures. Only `dp_core.confidential.utility.write_utility` writes `Internal` figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_core.metrics.noise_size import Noise, half_width
from dp_core.tables.domain import Clique
from dp_core.wall.accounting.events import GaussianEvent, LaplaceEvent
from dp_core.wall.household_values import scale_in_households
from dp_core.wall.ledger.session import Grant

CONFIDENCE = 0.95
"""Confidence level of the interval of each charged figure."""


@dataclass(frozen=True, slots=True)
class Public:
    """A figure made from public values only.

    Attributes:
        name: Name of the figure.
        value: Value of the figure; None if it cannot be computed.
    """

    name: str
    value: float | None

    def to_json(self) -> dict[str, object]:
        """Return the figure as the statement contains it."""
        return {"figure": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class Charged:
    """The noisy distance of one table from that of the sets, paid for by a receipt.

    Attributes:
        grant: Grant that paid for it; only a session of the ledger makes one.
        table: Columns of the table.
        distance: Noisy sum over cells of |count in the file - count in the sets|, in units of
            1/`shares` of a record, as it was drawn.
        shares: Shares of a unit; 1 (the default) unless households are the units.
    """

    grant: Grant
    table: Clique
    distance: int
    shares: int = 1

    def __post_init__(self) -> None:
        # privacy: a figure about the data that was not paid for is internal.
        if not isinstance(self.grant, Grant) or self.grant.step.stage != "checks":
            raise TypeError("A charged figure needs the grant of a check that paid for it.")
        if list(self.table) not in self._tables():
            raise ValueError("The grant did not pay for the table of this charged figure.")

    def _tables(self) -> list[object]:
        asked = self.grant.step.asks.get("tables")
        return asked if isinstance(asked, list) else []

    def to_json(self, records: int) -> dict[str, object]:
        """Return the figure as the statement contains it.

        Args:
            records: Number of records in the file: public, or estimated from noisy tables.
        """
        event = self.grant.step.event
        assert isinstance(event, LaplaceEvent | GaussianEvent)
        noise: Noise = "laplace" if isinstance(event, LaplaceEvent) else "gaussian"
        number = self.grant.number
        return charged_json(
            self.table,
            self.distance if self.shares == 1 else self.distance / self.shares,
            noise,
            scale_in_households(event.scale, self.shares),
            records,
            number,
        )


def charged_json(
    table: Clique, distance: float, noise: Noise, scale: float, records: int, receipt: int
) -> dict[str, object]:
    """Return a charged figure as the statement contains it; verification computes it again.

    The TVD is half of the distance divided by the number of records, cut to [0, 1]. Its 95 %
    interval accounts for the noise and is cut in the same way. The confidence level holds for each
    table separately, so about one of twenty true values is outside its interval.

    Args:
        table: Columns of the table.
        distance: Noisy sum over cells of absolute differences of counts, records; a whole number
            unless households are the units.
        noise: Kind of noise on the distance.
        scale: Parameter of the noise, records.
        records: Number of records in the file: public, or estimated from noisy tables.
        receipt: Number of the receipt that paid.
    """
    whole = 2 * max(records, 1)
    reach = half_width(noise, scale, CONFIDENCE)
    low, middle, high = (
        round(min(1.0, max(0.0, value / whole)), 6)
        for value in (distance - reach, distance, distance + reach)
    )
    return {
        "table": list(table),
        "distance": distance,
        "tvd": middle,
        "interval": [low, high],
        "confidence": CONFIDENCE,
        "noise": noise,
        "scale": scale,
        "receipt": receipt,
    }


def largest(values: list[float]) -> float | None:
    """Return the largest of the figures, None if there are none."""
    return max(values, default=None)


def mean(values: list[float]) -> float | None:
    """Return the mean of the figures, None if there are none."""
    return math.fsum(values) / len(values) if values else None
