"""What the statement says about the analyses that a release measured directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.inference.formulas.declared_statistic import is_statistic


def declared_formulas(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a plan's declared analyses, in their order; empty without any.

    They are formulas of regressions, and sentences such as `mean of income by sex`.
    """
    declared = plan["spec"].get("analyses", {})
    formulas: Sequence[str] = declared.get("formulas", ())
    return tuple(map(str, formulas))


def analyses_statement(plan: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what `method.analyses` says; None if the plan declares no analysis.

    Args:
        plan: `Plan.document()`, as Python values or as read from JSON.
    """
    texts = declared_formulas(plan)
    if not texts:
        return None
    words = []
    if formulas := [text for text in texts if not is_statistic(text)]:
        words.append(_of_regressions(formulas))
    if statistics := [text for text in texts if is_statistic(text)]:
        words.append(_of_statistics(statistics))
    return {"formulas": list(texts), "in_words": " ".join(words)}


def _of_statistics(sentences: Sequence[str]) -> str:
    each = "it" if len(sentences) == 1 else "each of them"
    return (
        "The following statistics were measured directly, from the numbers' own values instead of"
        f" bins: {'; '.join(sentences)}. Values in sums were clipped to limits that were chosen"
        f" from noisy counts. dp-release query answers {each} from these noisy sums and counts."
    )


def _of_regressions(formulas: Sequence[str]) -> str:
    these, each = "this regression", "it"
    if len(formulas) > 1:
        these, each = "these regressions", "each of them"
    return (
        f"The sums of {these} were measured directly, with the columns' own values instead of"
        f" bins: {'; '.join(formulas)}. dp-release infer answers {each} from these noisy sums,"
        " with intervals that include the noise."
    )
