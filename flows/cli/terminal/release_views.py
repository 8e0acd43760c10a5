"""The terminal views of plans and releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from dp_core.plan.forecast.stage_pace import span
from dp_core.plan.presets import PRESETS
from dp_core.schema.privacy import unit_words
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page_text import fact, sentence, table_of
from flows.answers.amounts import unit_of
from flows.cli.terminal.view_parts import (
    amount_words,
    left_of,
    number,
    path,
    permanently_spent,
    privacy,
    refusals_so_far,
)

if TYPE_CHECKING:
    from dp_core.plan.forecast.error_forecast import SetError
    from flows.answers import release_answers as answers
    from flows.answers.plan_answers import PlanAnswer
    from flows.answers.wanted_answers import WantedMargin

MOST_TABLES = 40
TOO_NOISY = 0.5
"""Expected TVD of a parametric method's counts from which its sets tell little."""


def _method(plan: PlanAnswer) -> str:
    """Return the preset, and the methods of its stages where the spec took others."""
    preset = PRESETS[plan.method]
    if preset.synthesize:
        return str(plan.method)
    used = (plan.spec["select"]["method"], plan.spec["reconstruct"]["method"])
    # The mode decides how posterior sets are reconstructed.
    own = "gum" if plan.mode == "posterior" else preset.reconstruct
    if used == (preset.select, own):
        return str(plan.method)
    return f"{plan.method} with {' + '.join(used)}"


def plan(console: Console, plan: PlanAnswer) -> None:
    """Print the cost and the noise of a planned release."""
    sets = f"{plural(plan.sets, 'set')} ({plan.mode})" if plan.sets else "tables only, no sets"
    console.print(
        f"[bold]{plan.release}[/bold]: {_method(plan)}, {privacy(plan.privacy)}, {plan.neighbours},"
        f" {sets}, account {plan.account}"
    )
    if plan.unit != "row":
        changed = "added or removed" if plan.neighbours == "add-remove" else "replaced"
        most = plan.max_members or plan.max_rows
        words = f"{unit_words(plan.unit, most, plan.waves or '')} {changed}"
        if plan.max_members is not None:
            words += (
                " with all its members. A record is a household, which counts 1 in every table."
            )
        elif plan.waves is not None:
            words += ". A record is a person, who counts 1 in every table."
        else:
            words += "; rows beyond that are dropped first."
        if plan.max_rows > 1:
            words += f" The noise on counts is {most} times that needed to protect one row."
        fact(console, "Protects", words)
    if plan.measurements:
        sentence(
            console,
            f"Costs nothing: uses the tables of {plan.measurements}, which paid for them. No data"
            " are opened.",
        )
    else:
        stages = table_of("stage", "share", f"cost ({unit_of(plan.currency)})", "for")
        for stage in plan.stages:
            cost = number(stage.cost)
            stages.add_row(stage.stage, str(stage.share), cost, stage.what)
        console.print(stages)
    if plan.tables:
        console.print()
        _planned_tables(console, plan)
    if plan.totals:
        console.print()
        _planned_totals(console, plan)
    for analysis in plan.analyses or ():
        wide = analysis.relative_width
        known = f": intervals about {wide:.2g} times as wide as the file's own" if wide else ""
        if not plan.rows_about:
            known = ": no expected width, because the schema has no rows_about"
        console.print(f"Declared: {analysis.formula}{known}.")
    for statistic in plan.statistics or ():
        within = ""
        if margin := statistic.margin_in_limits:
            within = (
                f": the noise margin of a group's total is ±{_rounded(margin)} times the limit to"
                " which the group's values are clipped (95 %). The limits are chosen from noisy"
                " counts"
            )
        if margin := statistic.margin_in_records:
            within = (
                ": the noise margin of the rank of a group's quantile is"
                f" ±{_rounded(margin)} records (95 %). The width of the interval also depends on"
                " how far apart the values are"
            )
        sentence(console, f"Declared: {statistic.statistic}{within}.")
    if plan.wanted:
        console.print()
        _wanted_tables(console, plan.wanted)
        if other := plan.wanted_by_other_noise:
            sentence(
                console,
                f"measure: {{noise: {other.noise}}} would make these margins {other.times:g} times"
                " narrower, and everything else less exact.",
            )
    for text in _remarks(plan):
        sentence(console, text)
    sentence(console, _memory(plan))
    sentence(console, _time(plan))
    console.print(f"Plan {plan.plan_hash}")
    _account(console, plan)


def _rounded(number: float) -> str:
    """Return a number with two significant digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.10g}"


def _memory(plan: PlanAnswer) -> str:
    """Return the bound of the memory of the release."""
    if plan.memory_bound_mb is None:
        return "Memory: not forecast, because the schema has no rows_about."
    return f"Memory: at most about {plan.memory_bound_mb:,} MB, plus Prefect's server."


def _time(plan: PlanAnswer) -> str:
    """Return how long the release takes, and the stages that take longer than a second."""
    if plan.time is None:
        return "Time: not forecast, because the schema has no rows_about."
    long = {stage: seconds for stage, seconds in plan.time.stages.items() if seconds >= 1}
    named = ", ".join(f"{stage} {span(seconds)}" for stage, seconds in long.items())
    return f"Time on this machine: about {span(plan.time.seconds)}" + (
        f" ({named})." if named else "."
    )


def _remarks(plan: PlanAnswer) -> Iterator[str]:
    """Yield what to know about a plan besides its tables."""
    for choice in plan.choices or ():
        yield f"{choice.in_words}."
    for bin_ in plan.wide_bins or ():
        yield bin_.in_words
    for many in plan.many_levels or ():
        yield many.in_words
    if plan.prior:
        yield (
            f"The prior, {plan.prior.kind} {plan.prior.name}, predicts how {plan.prior.columns} of"
            f" {plan.columns} columns depend on each other; it costs nothing. The sets follow it as"
            " far as the noisy tables agree."
        )
        if plan.prior.kind == "file":
            yield "`run` checks in the ledger that this file is no confidential input."
        yield from plan.prior.notes
    if plan.public_totals:
        yield (f"Every set meets these public totals, at no cost: {'; '.join(plan.public_totals)}.")
    if plan.totals_remark:
        yield plan.totals_remark
    if plan.bins_unused:
        yield (
            f"{plan.method} uses the bins of {', '.join(plan.bins_unused)} for plots and"
            " checks only; its model will miss long tails and heaped values. Use privsyn, which"
            " samples from the bins, or state the bins in the schema, which costs nothing."
        )
    if plan.sets > 1 and plan.mode == "shared":
        yield (
            "Confidence intervals from these sets will ignore the noise they share;"
            " synthesize: {mode: posterior} includes it at no extra cost."
        )
    if plan.evenness is not None:
        yield (
            f"About {plan.evenness:.1%} of the records in each set are uniformly random and"
            " contain no information about the file; this is the privacy cost of the method."
        )
    if plan.threshold and plan.threshold.rare_lost:
        yield plan.threshold.rare_lost
    yield from _expected(plan)
    if plan.score_noise_within is not None:
        yield (
            f"95 % margin of error of selection scores: at most ±{plan.score_noise_within:,.6g}"
            " records."
            " The noise of a selected table depends on how many are selected."
        )


def _expected(plan: PlanAnswer) -> Iterator[str]:
    """Yield the expected error of the sets, or why there is none."""
    if not plan.sets or plan.columns < 2:
        return
    said = "Expected average two-way TVD for a typical file:"
    if (error := plan.expected_error) is not None:
        yield f"{said} {_range(error)}."
        if error.mostly_noise:
            yield (
                "Relations between columns in the sets will be mostly noise: the schema"
                f" has {plan.levels:,} levels and bins in {plan.columns} columns for about"
                f" {error.rows:,} rows. Merge levels, leave out columns, or raise epsilon."
            )
    elif plan.expected_by_rows:
        ranges = "; ".join(f"{_range(each)} ({each.rows:,} rows)" for each in plan.expected_by_rows)
        yield (
            f"{said} {ranges}. Add rows_about to the schema for the forecast at your number of"
            " rows."
        )
    elif plan.rows_about is None:
        yield "Add rows_about to the schema to see the expected error of the sets."
    else:
        yield (
            "There is no forecast of the sets' error for this method and mode; dp-release compare"
            " measures it on a public file of the same form."
        )


def _range(error: SetError) -> str:
    low, high = error.two_way
    return f"{low:.2g} to {high:.2g}"


def _account(console: Console, plan: PlanAnswer) -> None:
    room = plan.room
    if room.left is not None and not room.account_closed:
        left = left_of(plan.account, room.left, room.above)
        said = f"{left[0].upper()}{left[1:]}"
        if plan.measurements:
            said += ": this release takes nothing of it."
        elif room.refused and room.refused.runbook != "budget-used-up":
            said += "."  # however much is left
        elif room.more_such_releases:
            said += f": enough for {plural(room.more_such_releases, 'release')} of this plan."
        else:
            said += ": not enough for this release."
        if more := room.more_with_gaussian_noise:
            said += f" With `measure: {{noise: gaussian}}`, enough for {plural(more, 'release')}."
        sentence(console, said)
    if approval := room.approval:
        if approval.approved:
            words = f"by {approval.by} on {approval.day}: {approval.reason}"
        else:
            owners = " and ".join(approval.waits_for)
            words = (
                f"required from {owners}: dp-release ledger approve SPEC --by NAME --reason TEXT"
            )
        fact(console, "Approval", words)
    if room.refused:
        row = f" (runbook: {room.refused.runbook})" if room.refused.runbook else ""
        sentence(console, f"The ledger would refuse this release. {room.refused.error}{row}")
    elif room.refused_attempts:
        sentence(console, refusals_so_far(plan.account, room.refused_attempts))


def _planned_tables(console: Console, plan: PlanAnswer) -> None:
    right = ("cells", "margin", "TVD")
    tables = table_of("table", "stage", *right, right=right)
    for table in plan.tables[:MOST_TABLES]:
        name = " x ".join(table.columns) or "number of rows"
        tables.add_row(
            f"interaction of {name}" if table.interaction else name,
            table.stage,
            f"{table.cells:,}",
            *_error(table.within, table.tvd),
        )
    console.print(tables)
    _left_out(console, len(plan.tables), "tables")
    kind = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[plan.tables[0].noise]
    records, rows = ("records", "rows") if plan.max_members is None else 2 * ("households",)
    note = (
        f" TVD: expected distance due to noise alone, for about {plan.rows_about:,} {rows}."
        if plan.rows_about
        else " Add rows_about to the schema to see the noise as TVD too."
    )
    console.print(
        f"[dim]{kind} noise. margin: 95 % margin of error of one count, in {records}.{note}[/dim]"
    )


def _wanted_tables(console: Console, wanted: Sequence[WantedMargin]) -> None:
    right = ("weight", "cells", "95 % margin", "points of share")
    tables = table_of("wanted table", *right, right=right)
    for table in wanted[:MOST_TABLES]:
        sums = [f"ranges of {name}" for name in table.ranges]
        sums += [f"prefixes of {name}" for name in table.prefixes]
        points = table.within_points
        tables.add_row(
            " x ".join(table.columns) + (f" ({', '.join(sums)})" if sums else ""),
            number(table.weight),
            f"{table.cells:,}",
            f"±{table.within:,.6g}",
            "" if points is None else f"±{points:g}",
        )
    console.print(tables)
    _left_out(console, len(wanted), "wanted tables")
    console.print(
        "[dim]95 % margin: the largest margin of error of a count, from all noisy tables together,"
        " in records; for ranges and prefixes, that of a typical one.[/dim]"
    )


def _planned_totals(console: Console, plan: PlanAnswer) -> None:
    right = ("numbers", "margin", "TVD")
    totals = table_of("sum", "of", *right, right=right)
    for total in plan.totals[:MOST_TABLES]:
        error = _error(total.within_records, total.tvd)
        totals.add_row(total.step, ", ".join(total.columns), f"{total.numbers:,}", *error)
    console.print(totals)
    _left_out(console, len(plan.totals), "sums")
    console.print(
        "[dim]margin: 95 % margin of error of one number, in records at the end of their range."
        " TVD: expected distance of the counts due to noise alone.[/dim]"
    )
    if any((total.tvd or 0) > TOO_NOISY for total in plan.totals):
        sentence(
            console,
            "The noise moves most records to other cells. Use fewer columns or levels, a larger"
            " epsilon, or a method that measures small tables, such as privsyn.",
        )


def _error(within: float, tvd: float | None) -> tuple[str, str]:
    """Return the two columns with the error of a table or sum."""
    return f"±{number(within)}", "" if tvd is None else f"{tvd:.3f}"


def _left_out(console: Console, count: int, what: str) -> None:
    if count > MOST_TABLES:
        console.print(f"... and {count - MOST_TABLES} more {what} (--json lists all)")


def published(console: Console, made: answers.PublishedRelease) -> None:
    """Print what a published release cost, and where it is."""
    sets = "noisy tables only"
    if made.sets:
        size = f"{made.rows:,} rows"
        if made.persons is not None:
            size = f"{made.rows:,} households with {made.persons:,} persons"
        sets = f"{plural(made.sets, 'set')} of {size}"
    console.print(f"[bold]{made.release}[/bold] is released: {sets} in {made.seconds} s.")
    spent = f"{amount_words(made.spent)} ({made.neighbours}) in {made.charges} charges"
    if made.measurements:
        spent = f"nothing; the tables of {made.measurements} were used"
    fact(console, "Spent", f"{spent}; {left_of(made.account, made.left, made.above)}.")
    _accuracy(console, made.accuracy)
    path(console, "Bundle", made.out)
    if made.sets and not made.measurements:
        path(console, "Internal", f"{made.internal} (confidential, for staff)")
    first = f" --measurements DIR (the bundle of {made.measurements})" if made.measurements else ""
    path(console, "Check", f"dp-release verify {made.out}{first}")


def _accuracy(console: Console, accuracy: Mapping[str, Any]) -> None:
    if accuracy.get("mean_tvd_to_noisy") is None:
        return
    count = accuracy["tables"]
    tables = f"the {count} noisy tables" if count != 1 else "the noisy table"
    if beyond := accuracy.get("interactions"):
        tables += f" and the {beyond} interactions" if beyond != 1 else " and the interaction"
    fact(
        console,
        "Accuracy",
        f"mean TVD between the sets and {tables}: {accuracy['mean_tvd_to_noisy']:.4f};"
        f" {accuracy['mean_expected_tvd']:.4f} is expected from noise and sampling.",
    )


def demo(console: Console, made: answers.PublishedRelease) -> None:
    """Print a published release of the demo, and its distances to the public data."""
    from flows.cli.actions.demo_job import HOUSEHOLDS

    published(console, made)
    assert made.utility is not None
    data, are = ("survey", "is public") if made.persons is None else ("files", "are generated")
    means = ", ".join(f"{name} {value:.4f}" for name, value in made.utility.items() if value)
    fact(
        console,
        "Truth",
        f"average TVD between the sets and the {data}: {means}. (Computed from the data, and"
        f" printed only because the demo's {data} {are}.)",
    )
    if made.persons is not None:
        for command, asked in HOUSEHOLDS.questions:
            path(console, "Try", f'dp-release {command} {made.out} "{asked}"')


def shown(console: Console, answer: answers.ReleaseStatus | answers.AllStatuses) -> None:
    """Print one release, or a line for each."""
    from flows.answers.release_answers import AllStatuses

    if isinstance(answer, AllStatuses):
        _statuses(console, answer)
    else:
        status(console, answer)


def _statuses(console: Console, answer: answers.AllStatuses) -> None:
    if not answer.releases:
        console.print("No releases yet. To make one: dp-release run SPEC --out DIR")
        return
    table = table_of("release", "account", "epsilon", "charged", "state", fold=("state",))
    for item in answer.releases:
        epsilon, charged = number(item.reserved.epsilon), f"{item.spent_part:.0%}"
        if item.measurements:
            charged = f"tables of {item.measurements}"
        state = item.state
        if item.running:
            state += f", {item.running.stage} {item.running.in_words}"
        table.add_row(item.release, item.account, epsilon, charged, state)
    console.print(table)
    if answer.needs:
        console.print("\n[bold]Needs a person[/bold]")
        for need in answer.needs:
            sentence(console, f"{need.release}: {need.do}")
    else:
        console.print("\nNo release needs a person.")
    verified = answer.ledger_verified
    if verified is None:
        words = "not verified from this home yet; run dp-release ledger verify"
    elif verified.passed:
        words = f"verified {verified.at.isoformat(timespec='seconds')}"
    else:
        at = verified.at.isoformat(timespec="seconds")
        words = f"FAILED verification {at} (runbook: ledger-changed)"
    fact(console, "Ledger", words)


def status(console: Console, answer: answers.ReleaseStatus) -> None:
    """Print the stages, budget and state of a release."""
    console.print(f"[bold]{answer.release}[/bold]: {answer.state}")
    reserved, account = privacy(answer.reserved), f"account {answer.account!r}"
    if answer.outcome == "returned":
        fact(console, "Returned", f"{reserved} to {account}; the name can be used again.")
        if answer.stopped:
            fact(console, "Stopped", answer.stopped)
        return
    if answer.spent:
        fact(console, "Spent", f"{amount_words(answer.spent)} from {account}, permanently")
    if answer.measurements:
        fact(console, "Reserved", f"nothing; uses the tables of {answer.measurements}")
    else:
        _reserved(console, answer, reserved, account)
    if answer.holder:
        holder = answer.holder
        process = f"process {holder.process} on {holder.host} since {holder.since}"
        fact(console, "Running", f"{process}; its lease ends {holder.lease_ends} unless renewed")
    if answer.running:
        fact(console, "Stage", f"{answer.running.stage}: {answer.running.in_words}")
    if answer.charges and not answer.here and answer.outcome is None:
        fact(
            console,
            "Folder",
            "not in this home: the release was started in another home, or its folder was deleted."
            " Resume it in that home, or abandon it.",
        )
    if answer.stopped:
        fact(console, "Stopped", answer.stopped)
    fact(console, "Done", ", ".join(answer.stages_done) or "nothing yet")
    if answer.stages_open:
        fact(console, "Open", ", ".join(answer.stages_open))
    if answer.gate:
        _gate(console, answer.gate)
    if answer.out and answer.outcome in (None, "finished"):
        yet = "" if "publish" in answer.stages_done else " (not written yet)"
        path(console, "Bundle", f"{answer.out}{yet}")


def _reserved(console: Console, answer: answers.ReleaseStatus, reserved: str, account: str) -> None:
    fact(
        console,
        "Reserved",
        f"{reserved} from {account}; {answer.spent_part:.0%} of it charged in"
        f" {plural(answer.charges, 'charge')}"
        + (f", {answer.uncommitted} not committed yet." if answer.uncommitted else "."),
    )


def _gate(console: Console, gate: answers.Approval) -> None:
    for look in gate.looks:
        fact(console, "Look", f"on {look['day']} by {look['by']}: {look['reason']}")
    if gate.decision:
        said = gate.decision
        words = f"{said['decision']} on {said['day']} by {said['by']}: {said['reason']}"
        fact(console, "Decided", words)


def abandoned(console: Console, answer: answers.EndedRelease) -> None:
    """Print what stays spent of an abandoned release, and what became of its files."""
    files = {
        "deleted": "Its confidential files are deleted.",
        "none": "It never read the data, so there were no files to delete.",
        "gone": "Its folder is no longer in this home, so no file was deleted.",
        "elsewhere": (
            "It was started in another home: delete its confidential files there, in"
            f" runs/{answer.release}/confidential."
        ),
    }[str(answer.files)]
    left = left_of(answer.account, answer.left, answer.above)
    sentence(
        console,
        f"Release {answer.release!r} is abandoned: {permanently_spent(answer.spent)}, and {left}."
        f" {files}",
    )


def looked(console: Console, answer: answers.RecordedLook) -> None:
    """Print that a look is recorded, and where the report is."""
    name = answer.release
    look = f"{answer.by} looked at {name} on {answer.day} (look number {len(answer.looks)})"
    sentence(console, f"Recorded: {look}.")
    path(console, "Internal", f"{answer.internal} (confidential, for staff)")
    if answer.outcome is None:
        words = f"{name} --by NAME --reason TEXT"
        fact(console, "Decide", f"dp-release release publish {words}")
        fact(console, "or", f"dp-release release withdraw {words}")


def documented(console: Console, answer: answers.DataDocs) -> None:
    """Print where the pages of a validation are."""
    path(console, "Data Docs", f"{answer.page} (confidential, for staff)")


def withdrawn(console: Console, answer: answers.EndedRelease) -> None:
    """Print what a withdrawn release spent."""
    left = left_of(answer.account, answer.left, answer.above)
    sentence(
        console,
        f"Release {answer.release!r} is withdrawn: {permanently_spent(answer.spent)}, its name"
        f" stays used, and {left}. Its sets are deleted; its internal report remains and can be"
        " read with `dp-release release look`.",
    )
