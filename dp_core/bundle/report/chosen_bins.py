"""What the report says of bins and levels that were chosen from the confidential file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from dp_core.bundle.files.published import Published
from dp_core.methods import registry


@dataclass(frozen=True, slots=True)
class Chosen:
    """Bins and levels that the paying stage `domain` chose.

    Attributes:
        bins: Columns whose bins it chose.
        levels: For each column whose levels it chose: its name, how many are kept, and of how many.
        percent: Of the reserved total that it was charged.
        spread: Whether values within those bins follow the same noisy counts.
    """

    bins: tuple[str, ...]
    levels: tuple[tuple[str, int, int], ...]
    percent: float
    spread: bool


def chosen(published: Published) -> Chosen | None:
    """Return what was chosen privately, None where all bins and levels were public beforehand."""
    columns = published.schema.private
    if not columns:
        return None
    bins, levels = [], []
    for column in columns:
        choice = column.choice
        assert choice is not None
        if column.levels:
            kept = column.bins - len(choice.groups)
            levels.append((column.name, kept, choice.among.bins))
        else:
            bins.append(column.name)
    cost = sum(
        (
            Fraction(str(receipt.body["cost"]))
            for receipt in published.receipts
            if receipt.kind == "charge" and receipt.body["stage"] == "domain"
        ),
        Fraction(0),
    )
    return Chosen(
        bins=tuple(bins),
        levels=tuple(levels),
        percent=100 * float(cost / published.currency.limit),
        spread=_by_bins(cast("Mapping[str, Any]", published.plan["spec"])),
    )


def _by_bins(spec: Mapping[str, Any]) -> bool:
    """Return whether numbers are drawn within bins; some methods have a model of their own."""
    if "select" in spec:
        return True
    options = spec["synthesize"]
    names = options.get("models", [options["method"]])
    return any(registry.find("parametric", name)().by_bins for name in names)
