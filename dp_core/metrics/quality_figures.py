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

from dp_core.client.household_values import scale_in_households
from dp_core.client.released import Charged
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.metrics.noise_size import Noise, half_width

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


def charged_figure(charged: Charged, records: int) -> dict[str, object]:
    """Return a charged figure as the statement contains it.

    Args:
        charged: The noisy distance, and the grant that paid for it.
        records: Number of records in the file: public, or estimated from noisy tables.
    """
    event = charged.grant.step.event
    assert isinstance(event, LaplaceEvent | GaussianEvent)
    noise: Noise = "laplace" if isinstance(event, LaplaceEvent) else "gaussian"
    return charged_json(
        charged.table,
        charged.distance if charged.shares == 1 else charged.distance / charged.shares,
        noise,
        scale_in_households(event.scale, charged.shares),
        records,
        charged.grant.number,
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
