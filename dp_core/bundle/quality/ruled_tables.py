"""How near the sets are to the noisy tables of columns that rules between columns name. Public."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_core.bundle.quality.table_fit import TableFit
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import other


def ruled_tables(schema: Schema, fits: Sequence[TableFit]) -> dict[str, object] | None:
    """Return the fit of the tables that have a column of a rule; None without such rules.

    If a noisy table contradicts a rule, the sets differ from it by more than noise explains. Rules
    that count the members of a household are among these rules.

    Args:
        schema: The schema.
        fits: Distances of the sets from the noisy tables.

    Returns:
        `tables`, their number; `mean_tvd_to_noisy`, the mean TVD between a set and a noisy table;
        and `mean_expected_tvd`, the TVD expected from noise and sampling alone. The
        means are rounded to 6 digits, and null without such tables.
    """
    if not schema.rules and not schema.member_rules:
        return None
    named = {name for rule in schema.rules for name in rule.columns}
    counted = {name for rule in schema.member_rules for name in rule.columns}
    named |= counted | {other(name) for name in counted}
    ruled = [fit for fit in fits if not named.isdisjoint(fit.clique)]
    return {
        "tables": len(ruled),
        "mean_tvd_to_noisy": _mean([value for fit in ruled for value in fit.set_tvd]),
        "mean_expected_tvd": _mean([value for fit in ruled for value in fit.expected_tvd]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 6) if values else None
