"""The terminal view of a combined regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from flows.cli.terminal.view_parts import fact, sentence, table_of

if TYPE_CHECKING:
    from dp_core.analysis.regression.regression_answer import (
        CombinedFit,
        NaiveFit,
        RegressionAnswer,
    )


def inferred(console: Console, answer: RegressionAnswer) -> None:
    """Print the table of coefficients, the rule, warnings and notes."""
    sets, level = answer.sets, f"{100 * answer.level:.4g} %"
    reason = answer.rule.not_honest_because
    if reason is not None:
        fact(console, "Not honest", reason)
    sentence(console, f"{answer.formula}   ({answer.family}: {answer.modelled})")
    fact(console, "Sets", _sets(answer))
    if sets > 1:
        rule = answer.rule
        fact(
            console,
            "Rule",
            f"{rule.name}: {rule.in_words}. {rule.variance}, degrees of freedom"
            f" {rule.degrees_of_freedom}; after {rule.source}.",
        )
    # Before the numbers, which are read only once.
    for text in answer.warnings:
        if text != reason:
            fact(console, "Warning", text)
    console.print()
    _table(console, answer, level)
    joint = answer.all_terms
    if joint:
        console.print()
        sentence(
            console,
            f"All terms together: F = {joint.statistic:.4g} on {joint.numerator_df} and"
            f" {_degrees(joint.denominator_df)} degrees of freedom,"
            f" p {_probability(joint.p_value, '= ')}.",
        )
    if sets > 1:
        sentence(console, _naive(answer))
    for text in answer.notes:
        fact(console, "Note", text)


def _sets(answer: RegressionAnswer) -> str:
    used = [row.used for row in answer.rows]
    rows = f"{used[0]:,}" if min(used) == max(used) else f"{min(used):,} to {max(used):,}"
    return f"{answer.sets} of {rows} rows" if len(used) > 1 else f"1 of {rows} rows"


def _table(console: Console, answer: RegressionAnswer, level: str) -> None:
    several = answer.sets > 1
    numbers = ("estimate", "std. error", "t", "df", "p", f"{level} interval")
    naive = "set 1 alone (naive)"
    names: tuple[str, ...] = ("coefficient", *numbers, naive)
    if not several:
        names = ("coefficient", "estimate", "std. error", f"naive {level} interval")
    table = table_of(*names, right=names[1:], fold=("coefficient",))
    for row in answer.coefficients:
        alone = row.one_set
        found = row.combined
        if found is None:
            table.add_row(
                Text(row.name),
                _four(alone.estimate),
                _four(alone.std_error),
                _range(alone),
            )
            continue
        table.add_row(
            Text(row.name),  # a level in brackets is no markup
            _four(found.estimate),
            _four(found.std_error),
            f"{found.statistic:.2f}",
            _degrees(found.degrees_of_freedom),
            _probability(found.p_value),
            _range(found),
            _range(alone),
        )
    console.print(table)


def _naive(answer: RegressionAnswer) -> str:
    """Return how much narrower the naive intervals are."""
    ratios = sorted(
        (row.combined.high - row.combined.low) / (row.stacked.high - row.stacked.low)
        for row in answer.coefficients
        if row.combined and row.stacked and row.stacked.high > row.stacked.low
    )
    if not ratios:
        return ""
    middle = ratios[len(ratios) // 2]
    return (
        "Naive intervals treat synthetic rows as people, and are shown for comparison only. Those"
        f" from the {answer.sets} stacked sets would be {middle:.1f} times narrower (median; see"
        " --json)."
    )


def _range(values: NaiveFit | CombinedFit) -> str:
    return f"{_four(values.low)} to {_four(values.high)}"


def _four(value: float) -> str:
    """Return a number with four decimals at most, for a table of results.

    >>> _four(0.123456), _four(-12.3456), _four(123456.7), _four(0.0000012345)
    ('0.1235', '-12.35', '123457', '1.234e-06')
    """
    if value == 0:
        return "0"
    if abs(value) >= 1e7 or abs(value) < 1e-4:
        return f"{value:.4g}"
    whole = len(str(int(abs(value))))
    return f"{value:.{max(0, 4 - (whole if abs(value) >= 1 else 0))}f}"


def _degrees(value: float | None) -> str:
    if value is None or value >= 1e6:
        return "∞"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _probability(value: float, equals: str = "") -> str:
    """Return a p value.

    >>> _probability(0.0432), _probability(1e-9)
    ('0.043', '< 0.001')
    """
    return "< 0.001" if value < 0.0005 else f"{equals}{value:.3f}"
