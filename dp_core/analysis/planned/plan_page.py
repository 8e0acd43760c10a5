"""The page of a plan: its cost, its tables with their noise, and what to know about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_core.accounts.requested import Privacy, cost_unit, words_of
from dp_core.analysis.planned.plan_values import plan_values
from dp_core.plan.forecast.error_forecast import SetError
from dp_core.plan.forecast.stage_pace import span
from dp_core.plan.plan import Plan
from dp_core.plan.presets import PRESETS
from dp_core.text.pages.number_texts import number, plural
from dp_core.text.pages.page import (
    Bars,
    Block,
    Fact,
    Listing,
    Page,
    Sentence,
    Title,
    numbers,
    texts,
)
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd


MOST_TABLES = 40
"""Most tables that a terminal shows."""
TOO_NOISY = 0.5
"""Expected TVD of a parametric method's counts from which its sets tell little."""


def plan_page(plan: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the cost and the noise of a planned release.

    Args:
        plan: What `plan_values` returns.
    """
    sets = "tables only, no sets"
    if plan["sets"]:
        sets = f"{plural(plan['sets'], 'set')} ({plan['mode']})"
    yield Title(
        plan["release"],
        f": {_method(plan)}, epsilon {number(plan['epsilon'])}, delta {number(plan['delta'])},"
        f" {plan['neighbours']}, {sets}, account {plan['account']}",
    )
    if plan["unit"] != "row":
        yield Fact("Protects", _unit_words(plan))
    if earlier := plan.get("measurements"):
        yield Sentence(
            f"Costs nothing: uses the tables of {earlier}, which paid for them. No data are opened."
        )
    else:
        rows = [
            (each["stage"], str(each["share"]), each["cost"], each["what"])
            for each in plan["stages"]
        ]
        columns = (
            *texts("stage", "share"),
            *numbers(f"cost ({cost_unit(plan['currency'])})"),
            *texts("for"),
        )
        yield Listing(columns, rows)
        shares = tuple((each["stage"], float(each["share"])) for each in plan["stages"])
        yield Bars("share of the budget", shares, percent=True)
        if plan["extensions"]:
            asked = ", ".join(plan["extensions"])
            yield Fact("Extensions", f"may ask the kernel's {asked}, beside its core questions")
    if plan["tables"]:
        yield from _planned_tables(plan)
    if plan["totals"]:
        yield from _planned_totals(plan)
    yield from _declared_sentences(plan)
    if wanted := plan.get("wanted"):
        yield from _wanted_tables(wanted)
        if other := plan.get("wanted_by_other_noise"):
            yield Sentence(
                f"measure: {{noise: {other['noise']}}} would make these margins"
                f" {other['times']:g} times narrower, and everything else less exact."
            )
    yield from map(Sentence, _remarks(plan))
    yield Sentence(_memory(plan))
    yield Sentence(_time(plan))


def _unit_words(plan: Mapping[str, Any]) -> str:
    """Return whom the plan protects, if that is not one row."""
    changed = "added or removed" if plan["neighbours"] == "add-remove" else "replaced"
    most = plan.get("max_members") or plan["max_rows"]
    words = f"{plan['protects']} {changed}"
    if "max_members" in plan:
        words += " with all its members. A record is a household, which counts 1 in every table."
    elif "waves" in plan:
        words += ". A record is a person, who counts 1 in every table."
    else:
        words += "; rows beyond that are dropped first."
    if plan["max_rows"] > 1:
        words += f" The noise on counts is {most} times that needed to protect one row."
    return words


def _declared_sentences(plan: Mapping[str, Any]) -> Iterator[Sentence]:
    for analysis in plan.get("analyses", ()):
        wide = analysis["relative_width"]
        width = f": intervals about {wide:.2g} times as wide as the file's own" if wide else ""
        if not plan["rows_about"]:
            width = ": no expected width, because the schema has no rows_about"
        yield Sentence(f"Declared: {analysis['formula']}{width}.")
    for statistic in plan.get("statistics", ()):
        words = ""
        if margin := statistic["margin_in_limits"]:
            words = (
                f": the noise margin of a group's total is ±{_two_digits(margin)} times the limit"
                " to which the group's values are clipped (95 %). The limits are chosen from noisy"
                " counts"
            )
        if margin := statistic["margin_in_records"]:
            words = (
                ": the noise margin of the rank of a group's quantile is"
                f" ±{_two_digits(margin)} records (95 %). The width of the interval also depends on"
                " how far apart the values are"
            )
        yield Sentence(f"Declared: {statistic['statistic']}{words}.")


def _method(plan: Mapping[str, Any]) -> str:
    """Return the preset, and the methods of its stages where the spec took others."""
    preset = PRESETS[plan["method"]]
    if preset.synthesize:
        return str(plan["method"])
    used = (plan["spec"]["select"]["method"], plan["spec"]["reconstruct"]["method"])
    if used == (preset.select, preset.reconstruct):
        return str(plan["method"])
    return f"{plan['method']} with {' + '.join(used)}"


def _two_digits(number: float) -> str:
    """Return a number with two significant digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.10g}"


def _memory(plan: Mapping[str, Any]) -> str:
    """Return the bound of the memory of the release."""
    if plan["memory_bound_mb"] is None:
        return "Memory: not forecast, because the schema has no rows_about."
    return f"Memory: at most about {plan['memory_bound_mb']:,} MB, plus Prefect's server."


def _time(plan: Mapping[str, Any]) -> str:
    """Return how long the release takes, and the stages that take longer than a second."""
    if plan["time"] is None:
        return "Time: not forecast, because the schema has no rows_about."
    long = {stage: seconds for stage, seconds in plan["time"]["stages"].items() if seconds >= 1}
    named = ", ".join(f"{stage} {span(seconds)}" for stage, seconds in long.items())
    return f"Time on this machine: about {span(plan['time']['seconds'])}" + (
        f" ({named})." if named else "."
    )


def _remarks(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to know about a plan besides its tables."""
    if said := plan.get("unprotected"):
        yield said
    for choice in plan.get("choices", ()):
        yield f"{choice['in_words']}."
    for bin_ in plan.get("wide_bins", ()):
        yield bin_["in_words"]
    for many in plan.get("many_levels", ()):
        yield many.in_words
    if prior := plan.get("prior"):
        yield (
            f"The prior, {prior['kind']} {prior['name']}, predicts how {prior['columns']} of"
            f" {plan['columns']} columns depend on each other; it costs nothing. The sets follow it"
            " as far as the noisy tables agree."
        )
        if prior["kind"] == "file":
            yield "`run` checks in the ledger that this file is no confidential input."
        yield from prior["notes"]
    if totals := plan.get("public_totals"):
        yield f"Every set meets these public totals, at no cost: {'; '.join(totals)}."
    if remark := plan.get("totals_remark"):
        yield remark
    if plan["bins_unused"]:
        yield (
            f"{plan['method']} uses the bins of {', '.join(plan['bins_unused'])} for plots and"
            " checks only; its model will miss long tails and heaped values. Use privsyn, which"
            " samples from the bins, or state the bins in the schema, which costs nothing."
        )
    if plan["sets"] > 1 and plan["mode"] == "shared":
        yield (
            "Confidence intervals from these sets will ignore the noise they share;"
            " synthesize: {mode: posterior} includes it at no extra cost."
        )
    if plan["evenness"] is not None:
        yield (
            f"About {plan['evenness']:.1%} of the records in each set are uniformly random and"
            " contain no information about the file; this is the privacy cost of the method."
        )
    if (threshold := plan["threshold"]) and threshold["rare_lost"]:
        yield threshold["rare_lost"]
    yield from _error_sentences(plan)
    if plan["score_noise_within"] is not None:
        yield (
            f"95 % margin of error of selection scores: at most ±{plan['score_noise_within']:,.6g}"
            " records."
            " The noise of a selected table depends on how many are selected."
        )


def _error_sentences(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the expected error of the sets, or why there is none."""
    if not plan["sets"] or plan["columns"] < 2:
        return
    said = "Expected average two-way TVD for a typical file:"
    if (error := plan["expected_error"]) is not None:
        yield f"{said} {_range(error)}."
        if error.mostly_noise:
            yield (
                "Relations between columns in the sets will be mostly noise: the schema"
                f" has {plan['levels']:,} levels and bins in {plan['columns']} columns for about"
                f" {error.rows:,} rows. Merge levels, leave out columns, or raise epsilon."
            )
    elif by_rows := plan.get("expected_by_rows"):
        ranges = "; ".join(f"{_range(each)} ({each.rows:,} rows)" for each in by_rows)
        yield (
            f"{said} {ranges}. Add rows_about to the schema for the forecast at your number of"
            " rows."
        )
    elif plan["rows_about"] is None:
        yield "Add rows_about to the schema to see the expected error of the sets."
    else:
        yield (
            "There is no forecast of the sets' error for this method and mode; dp-release compare"
            " measures it on a public file of the same form."
        )


def _range(error: SetError) -> str:
    low, high = error.two_way
    return f"{low:.2g} to {high:.2g}"


def _planned_tables(plan: Mapping[str, Any]) -> Iterator[Block]:
    rows = []
    for table in plan["tables"]:
        name = " x ".join(table["columns"]) or "number of rows"
        name = f"interaction of {name}" if "interaction" in table else name
        error = _error(table["within"], table["tvd"])
        rows.append((name, table["stage"], table["cells"], *error))
    columns = (*texts("table", "stage"), *numbers("cells", "margin", "TVD"))
    yield Listing(columns, rows, most=MOST_TABLES)
    noise = plan["tables"][0]["noise"]
    kind = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[noise]
    records, of = ("households", "households") if "max_members" in plan else ("records", "rows")
    about = plan["rows_about"]
    note = (
        f" TVD: expected distance due to noise alone, for about {about:,} {of}."
        if about
        else " Add rows_about to the schema to see the noise as TVD too."
    )
    yield Sentence(f"{kind} noise. margin: 95 % margin of error of one count, in {records}.{note}")


def _wanted_tables(wanted: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    rows = []
    for table in wanted:
        sums = [f"ranges of {name}" for name in table["ranges"]]
        sums += [f"prefixes of {name}" for name in table["prefixes"]]
        name = " x ".join(table["columns"]) + (f" ({', '.join(sums)})" if sums else "")
        points = table["within_points"]
        margins = f"±{table['within']:,.6g}", None if points is None else f"±{points:g}"
        rows.append((name, table["weight"], table["cells"], *margins))
    headings = numbers("weight", "cells", "95 % margin", "points of share")
    yield Listing((*texts("wanted table"), *headings), rows, most=MOST_TABLES)
    yield Sentence(
        "95 % margin: the largest margin of error of a count, from all noisy tables together, in"
        " records; for ranges and prefixes, that of a typical one."
    )


def _planned_totals(plan: Mapping[str, Any]) -> Iterator[Block]:
    rows = [
        (
            total["step"],
            ", ".join(total["columns"]),
            total["numbers"],
            *_error(total["within_records"], total["tvd"]),
        )
        for total in plan["totals"]
    ]
    columns = (*texts("sum", "of"), *numbers("numbers", "margin", "TVD"))
    yield Listing(columns, rows, most=MOST_TABLES)
    yield Sentence(
        "margin: 95 % margin of error of one number, in records at the end of their range. TVD:"
        " expected distance of the counts due to noise alone."
    )
    if any((total["tvd"] or 0) > TOO_NOISY for total in plan["totals"]):
        yield Sentence(
            "The noise moves most records to other cells. Use fewer columns or levels, a larger"
            " epsilon, or a method that measures small tables, such as privsyn."
        )


def _error(within: float, tvd: float | None) -> tuple[str, str | None]:
    """Return the two cells with the error of a table or sum."""
    return f"±{number(within)}", None if tvd is None else f"{tvd:.3f}"


_COLUMNS = ("stage", "columns", "kind", "cells", "noise", "scale", "margin", "tvd")


class PlanPage(Printed):
    """The plan of a release.

    Attributes:
        plan: The plan itself.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def frame(self) -> pd.DataFrame:
        """The tables that are certain to be measured: one row for each.

        `scale` is the parameter of the noise, `margin` half of the width of the 95 % interval of
        the noise of a cell, records, and `tvd` the distance that the noise alone causes (NaN
        without `rows_about` in the schema).
        """
        import pandas as pd

        rows = (
            {
                **table,
                "columns": ", ".join(table["columns"]),
                "kind": "interaction" if "interaction" in table else "table",
                "margin": table["within"],
            }
            for table in plan_values(self.plan)["tables"]
        )
        return pd.DataFrame(list(rows), columns=_COLUMNS)

    def to_json(self) -> dict[str, Any]:
        """Return the plan's document: the resolved spec, and the budget of each stage."""
        return self.plan.document()

    def page(self) -> Page:
        """Return the cost of each stage, and the tables with their noise."""
        return (*plan_page(plan_values(self.plan)),)


def privacy_words(privacy: Privacy) -> str:
    """Return epsilon, delta and what they protect."""
    return (
        f"epsilon {float(privacy.epsilon):.6g}, delta {float(privacy.delta):.6g}, for"
        f" {words_of(privacy.protects).rstrip(',')} ({privacy.neighbours})"
    )
