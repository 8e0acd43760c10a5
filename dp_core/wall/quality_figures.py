"""Figures about quality, in three tiers that cannot be taken for one another.

| tier | made from | may be published | decides about publication |
|---|---|---|---|
| `Public` | noisy tables and synthetic sets | yes | yes |
| `Charged` | the data, through the curator, against a receipt of the ledger | yes | yes |
| `Internal` | the data, without protection | never | never: a person does, outside epsilon |

`Public` figures are made by `dp_core.spec.quality_checks.public_figures`, `Charged` ones by the
curator alone, and what is `Internal` is written by `dp_core.confidential.utility.write_utility`
alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_core.metrics.noise_size import Noise, half_width
from dp_core.tables.domain import Clique
from dp_core.wall.accounting.events import GaussianEvent, LaplaceEvent
from dp_core.wall.ledger.session import Grant

CONFIDENCE = 0.95
"""Of the interval of each charged figure, by itself."""


@dataclass(frozen=True, slots=True)
class Public:
    """A figure made from public values only.

    Attributes:
        name: What it is.
        value: None where there is nothing to compute it from.
    """

    name: str
    value: float | None

    def to_json(self) -> dict[str, object]:
        """Return it as the statement has it."""
        return {"figure": self.name, "value": self.value}


@dataclass(frozen=True, slots=True)
class Charged:
    """The noisy distance of one table from what the sets have there, paid for by a receipt.

    Attributes:
        grant: That paid for it; only a session of the ledger makes one.
        table: Its columns.
        distance: Noisy sum over cells of |count in the file - count in the sets|, records.
    """

    grant: Grant
    table: Clique
    distance: int

    def __post_init__(self) -> None:
        # privacy: a figure of the data that nobody paid for is internal, and never this.
        if not isinstance(self.grant, Grant) or self.grant.step.stage != "checks":
            raise TypeError("A charged figure needs the grant of a check that paid for it.")
        if list(self.table) not in self._tables():
            raise ValueError("A charged figure is of a table that its grant paid for.")

    def _tables(self) -> list[object]:
        asked = self.grant.step.asks.get("tables")
        return asked if isinstance(asked, list) else []

    def to_json(self, records: int) -> dict[str, object]:
        """Return it as the statement has it.

        Args:
            records: Of the file: public, or as the noisy tables have it.
        """
        event = self.grant.step.event
        assert isinstance(event, LaplaceEvent | GaussianEvent)
        noise: Noise = "laplace" if isinstance(event, LaplaceEvent) else "gaussian"
        number = self.grant.number
        return charged_json(self.table, self.distance, noise, float(event.scale), records, number)


def charged_json(
    table: Clique, distance: int, noise: Noise, scale: float, records: int, receipt: int
) -> dict[str, object]:
    """Return a charged figure as the statement has it; whoever verifies makes it again.

    The TVD is half of the distance over the records, cut to 0 and 1, and its interval that of the
    noise, likewise. With 95 in 100 the interval of one table holds what the exact distance comes to
    for that number of records; of twenty tables, one may be outside.
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
    """Return the largest of some figures, None of none."""
    return max(values, default=None)


def mean(values: list[float]) -> float | None:
    """Return the mean of some figures, None of none."""
    return math.fsum(values) / len(values) if values else None
