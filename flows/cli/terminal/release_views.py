"""The terminal views of plans, releases and bundles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from dp_core.schema.privacy import unit_words
from dp_core.spec.presets import PRESETS
from flows.cli.terminal.view_parts import (
    amount_words,
    fact,
    fraction,
    left_of,
    number,
    plural,
    privacy,
    sentence,
    table_of,
)

if TYPE_CHECKING:
    from flows.answers.bundle_answers import BundleCheck
    from flows.answers.plan_answers import PlanAnswer
    from flows.answers.release_answers import (
        AllStatuses,
        Approval,
        Holder,
        PublishedRelease,
        ReleaseStatus,
    )

MOST_TABLES = 40
TOO_NOISY = 0.5
"""Expected TVD of a parametric method's counts from which its sets tell little."""


def _method(plan: PlanAnswer) -> str:
    """Return the preset, and the methods of its stages where the spec took others."""
    preset = PRESETS[plan.method]
    if preset.synthesize:
        return str(plan.method)
    used = (plan.spec["select"]["method"], plan.spec["reconstruct"]["method"])
    if used == (preset.select, preset.reconstruct):
        return str(plan.method)
    return f"{plan.method} with {' + '.join(used)}"


def plan(console: Console, plan: PlanAnswer) -> None:
    """Print the cost and the noise of a planned release."""
    console.print(
        f"[bold]{plan.release}[/bold]: {_method(plan)}, epsilon {number(plan.privacy.epsilon)},"
        f" delta {number(plan.privacy.delta)}, {plan.neighbours}, {plan.sets}"
        f" {'sets' if plan.sets != 1 else 'set'} ({plan.mode}), account {plan.account}"
    )
    if plan.unit != "row":
        changed = "added or removed" if plan.neighbours == "add-remove" else "replaced"
        most = plan.max_rows
        words = f"{unit_words(plan.unit, most)} {changed}; rows beyond that are dropped first."
        if most > 1:
            words += f" The noise on counts is {most} times that needed to protect one row."
        fact(console, "Protects", words)
    stages = table_of("stage", "share", f"cost ({_unit(plan.currency)})", "for")
    for stage in plan.stages:
        cost = number(fraction(stage.cost))
        stages.add_row(stage.stage, stage.share, cost, stage.what)
    console.print(stages)
    if plan.tables:
        console.print()
        _planned_tables(console, plan)
    if plan.totals:
        console.print()
        _planned_totals(console, plan)
    for choice in plan.choices or ():
        sentence(console, f"{choice.in_words}.")
    if plan.bins_unused:
        sentence(
            console,
            f"{plan.method} uses the bins of {', '.join(plan.bins_unused)} for plots and"
            " checks only; its model will miss long tails and heaped values. Use privsyn, which"
            " samples from the bins, or state the bins in the schema, which costs nothing.",
        )
    if plan.sets > 1 and plan.mode == "shared":
        sentence(
            console,
            "Confidence intervals from these sets will ignore the noise they share;"
            " synthesize: {mode: noise-aware} includes it at no extra cost.",
        )
    if plan.evenness is not None:
        sentence(
            console,
            f"About {plan.evenness:.1%} of the records in each set are uniformly random and"
            " contain no information about the file; this is the privacy cost of the method.",
        )
    if plan.threshold and plan.threshold.rare_lost:
        sentence(console, plan.threshold.rare_lost)
    if plan.expected_error is not None:
        low, high = plan.expected_error.two_way
        sentence(
            console,
            f"Expected average two-way TVD for a typical file: {low:.2g} to {high:.2g}.",
        )
    if plan.score_noise_within is not None:
        sentence(
            console,
            f"95 % error bound on selection scores: ±{plan.score_noise_within:,.6g} records. The"
            " noise of a selected table depends on how many are selected.",
        )
    if plan.memory_bytes is not None:
        console.print(f"Memory for reconstruction and synthesis: about {_size(plan.memory_bytes)}.")
    console.print(f"Plan {plan.plan_hash}")
    _account(console, plan)


def _account(console: Console, plan: PlanAnswer) -> None:
    room = plan.room
    if room.left is None:
        sentence(console, room.account_missing or "")
    elif room.account_closed:
        console.print(f"Account {plan.account!r}, or an account above it, is closed.")
    else:
        left = left_of(plan.account, room.left, room.above)
        fits = _room(room.more_such_releases or 0)
        sentence(console, f"{left[0].upper()}{left[1:]}: {fits}.")
    approval = room.approval
    if approval is None:
        return
    if approval.approved:
        words = f"by {approval.by} on {approval.day}: {approval.reason}"
    else:
        owners = " and ".join(approval.waits_for)
        words = f"required from {owners}: dp-release ledger approve SPEC --by NAME --reason TEXT"
    fact(console, "Approval", words)


def _room(releases: int) -> str:
    if not releases:
        return "not enough for this release"
    return f"enough for {plural(releases, 'release')} of this plan"


def _planned_tables(console: Console, plan: PlanAnswer) -> None:
    right = ("cells", "95 % error", "TVD")
    tables = table_of("table", "stage", *right, right=right)
    for table in plan.tables[:MOST_TABLES]:
        tables.add_row(
            ("interaction of " if table.interaction else "")
            + (" x ".join(table.columns) or "number of rows"),
            table.stage,
            f"{table.cells:,}",
            f"±{number(table.within)}",
            "" if table.tvd is None else f"{table.tvd:.3f}",
        )
    console.print(tables)
    left_out = len(plan.tables) - MOST_TABLES
    if left_out > 0:
        console.print(f"... and {left_out} more tables (--json lists all)")
    kind = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[plan.tables[0].noise]
    note = (
        f" TVD: expected distance due to noise alone, for about {plan.rows_about:,} rows."
        if plan.rows_about
        else " Add rows_about to the schema to see the noise as TVD too."
    )
    console.print(f"[dim]{kind} noise. 95 % error: bound for one count, in records.{note}[/dim]")


def _planned_totals(console: Console, plan: PlanAnswer) -> None:
    right = ("numbers", "95 % error", "TVD")
    totals = table_of("sum", "of", *right, right=right)
    for total in plan.totals[:MOST_TABLES]:
        totals.add_row(
            total.step,
            ", ".join(total.columns),
            f"{total.numbers:,}",
            f"±{number(total.within_records)}",
            "" if total.tvd is None else f"{total.tvd:.3f}",
        )
    console.print(totals)
    left_out = len(plan.totals) - MOST_TABLES
    if left_out > 0:
        console.print(f"... and {left_out} more sums (--json lists all)")
    console.print(
        "[dim]95 % error: bound for one number, in records at the end of their range. TVD: expected"
        " distance of the counts due to noise alone.[/dim]"
    )
    if any((total.tvd or 0) > TOO_NOISY for total in plan.totals):
        sentence(
            console,
            "The noise moves most records to other cells. Use fewer columns or levels, a larger"
            " epsilon, or a method that measures small tables, such as privsyn.",
        )


def published(console: Console, made: PublishedRelease) -> None:
    """Print what a published release cost, and where it is."""
    console.print(
        f"[bold]{made.release}[/bold] is released: {made.sets}"
        f" {'sets' if made.sets != 1 else 'set'} of {made.rows:,} rows"
        f" in {made.seconds} s."
    )
    fact(
        console,
        "Spent",
        f"{privacy(made.spent)} ({made.neighbours}) in {made.charges} charges;"
        f" {left_of(made.account, made.left, made.above)}.",
    )
    _accuracy(console, made.accuracy)
    console.print(f"Bundle   {made.out}", soft_wrap=True)
    console.print(f"Internal {made.internal} (confidential, for staff)", soft_wrap=True)
    console.print(f"Check    dp-release verify {made.out}", soft_wrap=True)


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


def demo(console: Console, made: PublishedRelease) -> None:
    """Print a published release of the demo, and its distances to the public data."""
    published(console, made)
    assert made.utility is not None
    means = ", ".join(f"{name} {value:.4f}" for name, value in made.utility.items() if value)
    fact(
        console,
        "Truth",
        f"average TVD between the sets and the survey: {means}. (Computed from the data, and"
        " printed only because the demo's survey is public.)",
    )


def statuses(console: Console, answer: AllStatuses) -> None:
    """Print a line for each release, and what needs a person."""
    if not answer.releases:
        console.print("No releases yet. To make one: dp-release run SPEC --out DIR")
        return
    table = table_of("release", "account", "epsilon", "charged", "state", fold=("state",))
    for item in answer.releases:
        table.add_row(
            item.release,
            item.account,
            number(item.reserved.epsilon),
            f"{item.spent_part:.0%}",
            item.state,
        )
    console.print(table)
    _needs(console, answer)


def _needs(console: Console, answer: AllStatuses) -> None:
    """Print what needs a person, below the list of releases."""
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
        words = f"verified {verified.at}"
    else:
        words = f"FAILED verification {verified.at} (runbook: ledger-changed)"
    fact(console, "Ledger", words)


def status(console: Console, answer: ReleaseStatus) -> None:
    """Print the stages, budget and state of a release."""
    console.print(f"[bold]{answer.release}[/bold]: {answer.state}")
    reserved = answer.reserved
    if answer.outcome == "returned":
        fact(
            console,
            "Returned",
            f"{privacy(reserved)} to account {answer.account!r}; the name can be used again.",
        )
        return
    if answer.spent:
        fact(
            console,
            "Spent",
            f"{amount_words(answer.spent)} from account {answer.account!r}, permanently",
        )
    fact(
        console,
        "Reserved",
        f"{privacy(reserved)} from account {answer.account!r}; {answer.spent_part:.0%} of it"
        f" charged in {plural(answer.charges, 'charge')}"
        + (f", {answer.uncommitted} not committed yet." if answer.uncommitted else "."),
    )
    if answer.holder:
        fact(console, "Running", _holder(answer.holder))
    if answer.charges and not answer.here and answer.outcome is None:
        fact(
            console,
            "Folder",
            "not in this home: the release was started in another home, or its folder was deleted."
            " Resume it in that home, or abandon it.",
        )
    fact(console, "Done", ", ".join(answer.stages_done) or "nothing yet")
    if answer.stages_open:
        fact(console, "Open", ", ".join(answer.stages_open))
    if answer.gate:
        _gate(console, answer.gate)
    if answer.out and answer.outcome in (None, "finished"):
        yet = "" if "publish" in answer.stages_done else " (not written yet)"
        console.print(f"Bundle   {answer.out}{yet}", soft_wrap=True)


def _gate(console: Console, gate: Approval) -> None:
    for look in gate.looks:
        fact(console, "Look", f"on {look['day']} by {look['by']}: {look['reason']}")
    if gate.decision:
        said = gate.decision
        fact(
            console,
            "Decided",
            f"{said['decision']} on {said['day']} by {said['by']}: {said['reason']}",
        )


def _holder(holder: Holder) -> str:
    return (
        f"process {holder.process} on {holder.host} since {holder.since}; its lease ends"
        f" {holder.lease_ends} unless renewed"
    )


def verified(console: Console, answer: BundleCheck) -> None:
    """Print the checks of a bundle."""
    for check in answer.checks:
        failed = "[red]FAIL[/red]" if check.decided else "[yellow]?[/yellow]   "
        mark = "[green]ok[/green]  " if check.passed else failed
        # Details quote the bundle, which is not trusted.
        console.print(f"{mark} {check.name}: {escape(check.detail)}")
    verdict = "verifies" if answer.passed else "does NOT verify"
    if not any(check.decided for check in answer.checks if not check.passed):
        verdict = (
            "verifies" if answer.passed else "CANNOT be verified with this version of dp-release"
        )
    console.print(f"The bundle {escape(str(answer.folder))} {verdict}.", soft_wrap=True)


def _unit(currency: str) -> str:
    return "epsilon" if currency == "pure" else "rho" if currency == "zcdp" else "mu²/2"


def _size(memory: int) -> str:
    size = float(memory)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
