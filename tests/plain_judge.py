"""A judge of a schema's own rules in place of Great Expectations, which takes seconds to import."""

from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

from dp_core.schema.expectations.suite import Rule, Seen


class PlainJudge:
    """Judges as `SuiteJudge` does, without a team's own expectations."""

    def __init__(
        self, _name: str, rules: Sequence[Rule], only: Collection[int] | None = None
    ) -> None:
        self.rules = {at: one for at, one in enumerate(rules) if only is None or at in only}
        self.success = True
        self.results: list[dict[str, Any]] = []

    def judge(self, seen: Seen, columns: Mapping[str, Any], _rows: int) -> frozenset[int]:
        """Return the numbers of the broken rules."""
        failed = frozenset(
            number
            for number, rule in self.rules.items()
            if rule.seen == seen == "profile" and rule.kind != "own"
            if not all(_holds(rule, value) for value in columns[rule.kwargs["column"]])
        )
        self.success &= not failed
        return failed


def _holds(rule: Rule, value: Any) -> bool:
    if rule.type == "expect_column_values_to_not_be_null":
        return value is not None
    if value is None:
        return True
    if rule.type == "expect_column_values_to_be_in_set":
        return value in rule.kwargs["value_set"]
    assert rule.type == "expect_column_values_to_be_between"
    low, high = rule.kwargs.get("min_value", value), rule.kwargs["max_value"]
    if isinstance(high, str):
        value = value.isoformat()
        low = rule.kwargs["min_value"]
    return bool(low <= value <= high)


def users() -> list[ModuleType]:
    """Return the modules that judge."""
    from tasks.validation import expectations, judged_sets

    return [expectations, judged_sets]


def install() -> None:
    """Let validation use this judge, in this process."""
    for module in users():
        module.SuiteJudge = PlainJudge  # type: ignore[attr-defined]
