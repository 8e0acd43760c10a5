"""The figures of one run on linked tables: households and the persons in them."""

from __future__ import annotations

import itertools
import math

from dp_core.lab.comparison.judging import SMOOTHING, mean_or_nan
from dp_core.lab.evaluation.linked_scores import COUNTED
from dp_core.lab.measures.kind_error import (
    KINDS,
    countable,
    tables_by_kind,
    tables_in_own_units,
)
from dp_core.lab.measures.relative_entropy import relative_entropy
from dp_core.lab.measures.scaled_error import max_cell_error
from dp_core.metrics.marginal_error import TRIPLES, small_cliques, tvd
from dp_core.tables.dataset import Dataset

FIGURE_OF_KIND = dict(
    zip(KINDS, ("tvd_household", "tvd_person", "tvd_both", "tvd_members", "tvd_size"), strict=True)
)
"""Name of the figure of each kind of tables."""

NOTES = (
    COUNTED,
    "2-way TVD, k-marginal and TVD x cells are left out, because a mean over all pairs would hide"
    " the kinds with few pairs. Each of the four kinds of pairs has its own figure.",
    "Relative is left out, because no method for linked tables treats all columns as independent.",
    "KL joint is left out, because a household with its members is not a cell of one table.",
    "Range error, pMSE ratio, correlation, PCA and exact matches are left out, because they assume"
    " independent records. Members of a household depend on each other.",
)
"""What the figures of linked tables count, which figures they do not have, and why."""


def judge_linked(real: Dataset, synthetic: Dataset) -> dict[str, float | None]:
    """Return the figures of one synthetic pair of files; None for a figure that does not apply.

    Args:
        real: Pair rows of the file that the method saw.
        synthetic: Pair rows that it made, in the same domain.
    """
    domain, linked = real.domain, real.domain.linked
    assert linked is not None
    own = domain.project((*linked.household_columns, *linked.person_columns))
    figures = {FIGURE_OF_KIND[kind]: tables for kind, tables in tables_by_kind(linked).items()}
    figures["tvd1"] = tuple((name,) for name in own.columns)
    figures["tvd3"] = small_cliques(own, 3, most=TRIPLES) if len(own) > 2 else ()
    asked, _ = countable(domain, itertools.chain.from_iterable(figures.values()))
    files = (lambda: [real]), (lambda: [synthetic])
    distances, cells, entropies = {}, [], []
    for clique, (exact, drawn) in tables_in_own_units(domain, asked, files):
        if not exact.any():
            continue  # no household has two members
        distances[clique] = tvd(exact, drawn)
        if len(clique) == 2:
            cells.append(max_cell_error(exact, drawn))
            entropies.append(relative_entropy(exact, drawn, smoothing=SMOOTHING))
    found = {
        name: mean_or_nan([distances[each] for each in cliques if each in distances])
        for name, cliques in figures.items()
    }
    found["cell"], found["kl2"] = max(cells, default=math.nan), mean_or_nan(entropies)
    return {name: None if math.isnan(value) else value for name, value in found.items()}
