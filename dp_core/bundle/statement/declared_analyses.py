"""What the statement says about the regressions that a release measured directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def declared_formulas(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the formulas of a plan's declared analyses, in their order; empty without any."""
    declared = plan["spec"].get("analyses", {})
    formulas: Sequence[str] = declared.get("formulas", ())
    return tuple(map(str, formulas))


def analyses_statement(plan: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what `method.analyses` says; None if the plan declares no analysis.

    Args:
        plan: `Plan.document()`, as Python values or as read from JSON.
    """
    formulas = declared_formulas(plan)
    if not formulas:
        return None
    these, each = "this regression", "it"
    if len(formulas) > 1:
        these, each = "these regressions", "each of them"
    return {
        "formulas": list(formulas),
        "in_words": (
            f"The sums of {these} were measured directly, with the columns' own values instead of"
            f" bins: {'; '.join(formulas)}. dp-release infer answers {each} from these noisy sums,"
            " with intervals that include the noise."
        ),
    }
