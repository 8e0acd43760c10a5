"""What a release was made from, in words: everything that ever looked at the confidential file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.bundle.files.published import Published
from dp_core.wall.ledger.session import DRAWN_CELLS, DRAWN_RECORDS
from dp_core.wall.released import Answers, Measurement, SparseTable, Totals, interactions_of


def made_from(published: Published) -> tuple[str, ...]:
    """Return phrases that together name all that was asked of the confidential file."""
    found: list[str] = []
    tables = [item for item in published.released if isinstance(item, Measurement)]
    larger = sum(1 for table in tables if table.clique)
    if larger:
        found.append(_number(larger, "noisy table"))
    if larger < len(tables):
        found.append("the noisy number of records")
    numbers = sum(item.values.size for item in published.released if isinstance(item, Answers))
    if numbers:
        found.append(_number(numbers, "single noisy number"))
    totals = [item for item in published.released if isinstance(item, Totals)]
    chosen_by = sum(item.values.size for item in totals if item.stage == "domain")
    if chosen_by:
        found.append(f"{_number(chosen_by, 'noisy count')} by which bins and levels were chosen")
    beyond = interactions_of(published.released)
    if beyond:
        found.append(f"{_number(len(beyond), 'noisy interaction')} of columns")
    sums = sum(item.values.size for item in totals if item.stage != "domain")
    sums -= sum(item.values.size for item in beyond)
    if sums:
        found.append(_number(sums, "noisy total"))
    sparse = [item for item in published.released if isinstance(item, SparseTable)]
    if sparse:
        kept = sum(item.values.size for item in sparse)
        found.append(
            f"{_number(kept, 'noisy cell')} of {_number(len(sparse), 'table')}, those that reached"
            f" {_range([item.threshold for item in sparse])} records"
        )
    asked = [_asked(row.body) for row in published.receipts if row.kind == "charge"]
    choices = sum(mechanism == "noisy-max" for mechanism, _ in asked)
    if choices:
        found.append(_number(choices, "private choice"))
    if any(name == DRAWN_RECORDS for _, name in asked):
        found.append("records drawn by counts with noise")
    if any(name == DRAWN_CELLS for _, name in asked):
        found.append("records drawn by counts with virtual records added to every cell")
    scores = sum(name == "indif" and mechanism != "noisy-max" for mechanism, name in asked)
    if scores:
        found.append("noisy scores of dependence")
    return tuple(found)


def headline(published: Published) -> tuple[int, str]:
    """Return how many noisy results are behind the sets, and what they are."""
    tables = sum(
        1
        for item in published.released
        if getattr(item, "stage", "") != "domain"
        and (not isinstance(item, Measurement) or len(item.clique) > 0)
    )
    if tables:
        beyond = len(interactions_of(published.released))
        if beyond:
            return tables, f"noisy {'tables and ' if beyond < tables else ''}interactions"
        return tables, "noisy table" if tables == 1 else "noisy tables"
    asked = [_asked(row.body) for row in published.receipts if row.kind == "charge"]
    choices = sum(mechanism == "noisy-max" for mechanism, _ in asked)
    if choices:
        return choices, "private choice" if choices == 1 else "private choices"
    return len(asked), "noisy result" if len(asked) == 1 else "noisy results"


def listed(phrases: Sequence[str]) -> str:
    """Return phrases as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(phrases) < 2:
        return "".join(phrases)
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def _asked(body: Mapping[str, Any]) -> tuple[str, str]:
    return str(body["event"]["mechanism"]), str(body["asks"]["name"])


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
