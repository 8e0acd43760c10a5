"""What a release was made from: everything that was computed from the confidential file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from dp_core.bundle.published import Published
from dp_core.client.released import Answers, Measurement, SparseTable, Totals, interactions_of
from dp_core.kernel.extensions import DRAWN_CELLS, DRAWN_RECORDS
from dp_core.methods import registry
from dp_core.methods.trends import is_trend
from dp_core.text.pages.number_texts import plural


def made_from(published: Published) -> tuple[str, ...]:
    """Return phrases that together name everything computed from the confidential file."""
    found: list[str] = []
    tables = [item for item in published.released if isinstance(item, Measurement)]
    larger = sum(1 for table in tables if table.clique)
    if larger:
        found.append(plural(larger, "noisy table"))
    if larger < len(tables):
        counted = "records" if published.schema.linked is None else "households"
        found.append(f"the noisy number of {counted}")
    numbers = sum(item.values.size for item in published.released if isinstance(item, Answers))
    if numbers:
        found.append(plural(numbers, "single noisy number"))
    totals = [item for item in published.released if isinstance(item, Totals)]
    chosen_by = sum(item.values.size for item in totals if item.stage == "domain")
    if chosen_by:
        found.append(f"{plural(chosen_by, 'noisy count')} that chose bins and levels")
    beyond = interactions_of(published.released)
    if beyond:
        found.append(f"{plural(len(beyond), 'noisy interaction')} of columns")
    trends = sum(map(is_trend, totals))
    if trends:
        found.append(f"{plural(trends, 'noisy trend')} of pairs of columns")
    sums = sum(item.values.size for item in totals if item.stage != "domain")
    sums -= trends + sum(item.values.size for item in beyond)
    if sums:
        found.append(plural(sums, "noisy total"))
    sparse = [item for item in published.released if isinstance(item, SparseTable)]
    if sparse:
        kept = sum(item.values.size for item in sparse)
        found.append(
            f"{plural(kept, 'noisy cell')} of {plural(len(sparse), 'table')} that reached a"
            f" threshold of {_range([item.threshold for item in sparse])} records"
        )
    asked = [_mechanism_and_question(row.body) for row in published.paid]
    choices = sum(mechanism == "noisy-max" for mechanism, _ in asked)
    if choices:
        found.append(plural(choices, "private choice"))
    if any(name == DRAWN_RECORDS for _, name in asked):
        found.append("records drawn in proportion to noisy counts")
    if any(name == DRAWN_CELLS for _, name in asked):
        found.append("records drawn in proportion to counts with virtual records in every cell")
    scores = {"indif", "table-distance"}
    if any(name in scores and mechanism != "noisy-max" for mechanism, name in asked):
        found.append("noisy scores of dependence")
    return tuple(found)


def headline(published: Published) -> tuple[int, str]:
    """Return the number of noisy results from which the sets were made, and their kind."""
    tables = sum(
        1
        for item in published.released
        if getattr(item, "stage", "") != "domain"
        and not is_trend(item)
        and (not isinstance(item, Measurement) or len(item.clique) > 0)
    )
    if tables:
        beyond = len(interactions_of(published.released))
        if beyond:
            return tables, f"noisy {'tables and ' if beyond < tables else ''}interactions"
        return tables, "noisy table" if tables == 1 else "noisy tables"
    asked = [_mechanism_and_question(row.body) for row in published.paid]
    choices = sum(mechanism == "noisy-max" for mechanism, _ in asked)
    if choices:
        return choices, "private choice" if choices == 1 else "private choices"
    return len(asked), "noisy result" if len(asked) == 1 else "noisy results"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Bins and levels that the paying stage `domain` chose.

    Attributes:
        bins: Columns whose bins were chosen.
        levels: For each column whose levels were chosen: its name, the number of levels kept, the
            number of levels before, and whether the sets have all of them again.
        percent: Cost of the choice, in percent of the reserved total.
        spread: Whether values within those bins follow the same noisy counts.
    """

    bins: tuple[str, ...]
    levels: tuple[tuple[str, int, int, bool], ...]
    percent: float
    spread: bool


def private_choices(published: Published) -> Chosen | None:
    """Return what was chosen privately; None if all bins and levels were public."""
    columns = published.schema.private
    if not columns:
        return None
    bins, levels = [], []
    for column in columns:
        choice = column.choice
        assert choice is not None
        if column.levels:
            kept = column.bins - len(choice.groups)
            levels.append((column.name, kept, choice.among.bins, choice.drawn))
        else:
            bins.append(column.name)
    cost = published.spent.get("domain", Fraction(0))
    return Chosen(
        bins=tuple(bins),
        levels=tuple(levels),
        percent=100 * float(cost / published.currency.limit),
        spread=_by_bins(cast("Mapping[str, Any]", published.plan["spec"])),
    )


def _by_bins(spec: Mapping[str, Any]) -> bool:
    """Whether numbers are drawn within bins; some parametric methods draw them otherwise."""
    if "select" in spec:
        return True
    options = spec["synthesize"]
    names = options.get("models", [options["method"]])
    return any(registry.find("parametric", name)().by_bins for name in names)


def enumeration(phrases: Sequence[str]) -> str:
    """Return phrases as one enumeration.

    >>> enumeration(["a", "b", "c"])
    'a, b and c'
    """
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def _mechanism_and_question(body: Mapping[str, Any]) -> tuple[str, str]:
    return str(body["event"]["mechanism"]), str(body["asks"]["name"])


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
