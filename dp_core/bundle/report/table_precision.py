"""How exactly the cells of a release's tables are known, by all that was measured of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dp_core.bundle.files.fit import TableFit
from dp_core.bundle.files.published import Published
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool_interactions


@dataclass(frozen=True, slots=True)
class Within:
    """How exactly cells are known. Public: it follows from scales.

    Attributes:
        pooled: All that was measured, whichever set it is for; None where no interaction was, and
            every table is told by itself.
        of_set: What serves each set, by its number, and what serves all of them at 0.
    """

    pooled: Pooled | None = None
    of_set: Mapping[int, Pooled] = field(default_factory=dict)

    def half_width(self, fit: TableFit) -> int | None:
        """Return within how many records a cell of the whole table is, 95 times in 100.

        None of an interaction whose table's other parts nothing tells of.
        """
        pooled = self.of_set.get(fit.replicate)
        found = None if pooled is None else pooled.half_width(fit.clique)
        if found is None:
            return None if fit.beyond else fit.half_width
        # The range of a table alone is exact, and this one is of a normal noise.
        return math.ceil(found) if fit.beyond else min(math.ceil(found), fit.half_width)


ALONE = Within()
"""Every table by itself."""


def within(published: Published) -> Within:
    """Return how exactly the cells of a release's tables are known."""
    domain = (published.schema.coarse or published.schema).domain
    rows = published.records if published.records_public else None
    pooled = pool_interactions(domain, published.released, rows=rows)
    if pooled is None:
        return ALONE
    of_set = {}
    for number in {item.replicate for item in published.released}:
        own = [item for item in published.released if item.replicate in (0, number)]
        found = pool_interactions(domain, own, rows=rows)
        if found is not None:
            of_set[number] = found
    return Within(pooled, of_set)
