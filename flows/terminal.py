"""How the commands' answers look on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from dp_core.presets import PRESETS

MOST_TABLES = 40


def show(what: str, answer: Mapping[str, Any]) -> None:
    """Print an answer for a person."""
    # Off a terminal nobody is helped by lines cut at 80 characters.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    {
        "plan": _plan,
        "made": _made,
        "demo": _demo,
        "status": _status,
        "verify": _verify,
        "account": _account,
        "accounts": _accounts,
        "charges": _charges,
    }[what](console, answer)


def _method(plan: Mapping[str, Any]) -> str:
    """Return the preset, and the methods of its stages where the spec took others."""
    preset = PRESETS[plan["method"]]
    used = (plan["spec"]["select"]["method"], plan["spec"]["reconstruct"]["method"])
    if used == (preset.select, preset.reconstruct):
        return str(plan["method"])
    return f"{plan['method']} with {' + '.join(used)}"


def _plan(console: Console, plan: Mapping[str, Any]) -> None:
    console.print(
        f"[bold]{plan['release']}[/bold]: {_method(plan)}, epsilon {_number(plan['epsilon'])},"
        f" delta {_number(plan['delta'])}, {plan['neighbours']}, {plan['sets']}"
        f" {'sets' if plan['sets'] != 1 else 'set'} ({plan['mode']}), account {plan['account']}"
    )
    stages = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("stage", "share", f"cost ({_unit(plan['currency'])})", "for"):
        stages.add_column(name)
    for stage in plan["stages"]:
        cost = _number(_fraction(stage["cost"]))
        stages.add_row(stage["stage"], stage["share"], cost, stage["what"])
    console.print(stages)
    if plan["tables"]:
        console.print()
        _planned_tables(console, plan)
    if plan["score_noise_within"] is not None:
        console.print(
            f"Scores of the selection are within {_number(plan['score_noise_within'])} records"
            " 95 times in 100; each selected table's noise follows from how many are chosen."
        )
    if plan["memory_bytes"] is not None:
        console.print(f"Memory for reconstruction and synthesis: about {_size(plan)}.")
    console.print(f"Plan {plan['plan_hash']}")
    if not plan["account_found"]:
        console.print(
            f"Account {plan['account']!r} is not open yet: dp-release ledger open"
            f" {plan['account']} --epsilon E --delta D --by NAME --reason TEXT"
        )
    else:
        console.print(
            f"Account {plan['account']!r} has epsilon {_number(plan['left']['epsilon'])},"
            f" delta {_number(plan['left']['delta'])} left:"
            f" {_room(plan['more_such_releases'])}."
        )


def _room(releases: int) -> str:
    if not releases:
        return "not enough for this release"
    return f"room for {releases:,} such release{'s' if releases != 1 else ''}"


def _planned_tables(console: Console, plan: Mapping[str, Any]) -> None:
    tables = Table(box=None, pad_edge=False, header_style="dim")
    for name, justify in (
        ("table", "left"),
        ("stage", "left"),
        ("cells", "right"),
        ("a count is within", "right"),
        ("TVD", "right"),
    ):
        tables.add_column(name, justify=justify)  # type: ignore[arg-type]
    for table in plan["tables"][:MOST_TABLES]:
        tables.add_row(
            " x ".join(table["columns"]) or "number of rows",
            table["stage"],
            f"{table['cells']:,}",
            f"±{_number(table['within'])}",
            "" if table["tvd"] is None else f"{table['tvd']:.3f}",
        )
    console.print(tables)
    left_out = len(plan["tables"]) - MOST_TABLES
    if left_out > 0:
        console.print(f"... and {left_out} more tables (--json lists all)")
    kind = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[
        plan["tables"][0]["noise"]
    ]
    note = (
        f" TVD: expected distance by noise alone, for about {plan['rows_about']:,} rows."
        if plan["rows_about"]
        else " State rows_about in the schema to see noise as TVD as well."
    )
    console.print(f"[dim]{kind} noise; 'within': 95 times in 100, in records.{note}[/dim]")


def _made(console: Console, made: Mapping[str, Any]) -> None:
    spent, left = made["spent"], made["left"]
    console.print(
        f"[bold]{made['release']}[/bold] is released: {made['sets']}"
        f" {'sets' if made['sets'] != 1 else 'set'} of {made['rows']:,} rows"
        f" in {made['seconds']} s."
    )
    _fact(
        console,
        "Spent",
        f"epsilon {_number(spent['epsilon'])}, delta {_number(spent['delta'])}"
        f" ({made['neighbours']}) in {made['charges']} charges; account {made['account']!r} has"
        f" epsilon {_number(left['epsilon'])}, delta {_number(left['delta'])} left.",
    )
    _accuracy(console, made["accuracy"])
    console.print(f"Bundle   {made['out']}", soft_wrap=True)
    console.print(f"Staff    {made['internal']} (confidential comparison)", soft_wrap=True)
    console.print(f"Check    dp-release verify {made['out']}", soft_wrap=True)


def _accuracy(console: Console, accuracy: Mapping[str, Any]) -> None:
    if accuracy.get("mean_tvd_to_noisy") is None:
        return
    count = accuracy["tables"]
    tables = f"the {count} noisy tables" if count != 1 else "the noisy table"
    _fact(
        console,
        "Accuracy",
        f"the sets are {accuracy['mean_tvd_to_noisy']:.4f} (mean TVD) from {tables};"
        f" noise and the drawing of rows explain {accuracy['mean_expected_tvd']:.4f}.",
    )


def _demo(console: Console, made: Mapping[str, Any]) -> None:
    _made(console, made)
    means = ", ".join(f"{name} {value:.4f}" for name, value in made["utility"].items() if value)
    _fact(
        console,
        "Truth",
        f"average TVD of the sets to the survey itself: {means}. (This compares with the"
        " data: fit to print only because the demo's survey is public.)",
    )


def _status(console: Console, answer: Mapping[str, Any]) -> None:
    if "releases" in answer:
        if not answer["releases"]:
            console.print("No release yet: dp-release run SPEC --out DIR makes one.")
            return
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("release", "account", "epsilon", "charged", "state"):
            table.add_column(name)
        for item in answer["releases"]:
            table.add_row(
                item["release"],
                item["account"],
                _number(item["reserved"]["epsilon"]),
                f"{item['spent_part']:.0%}",
                item["state"],
            )
        console.print(table)
        return
    console.print(f"[bold]{answer['release']}[/bold]: {answer['state']}")
    reserved = answer["reserved"]
    if answer["outcome"] == "returned":
        _fact(
            console,
            "Asked",
            f"epsilon {_number(reserved['epsilon'])}, delta"
            f" {_number(reserved['delta'])} of account {answer['account']!r}; the name is free.",
        )
        return
    _fact(
        console,
        "Reserved",
        f"epsilon {_number(reserved['epsilon'])}, delta {_number(reserved['delta'])}"
        f" of account {answer['account']!r}; {answer['spent_part']:.0%} of it charged in"
        f" {answer['charges']} charges"
        + (f", {answer['uncommitted']} not committed yet." if answer["uncommitted"] else "."),
    )
    _fact(console, "Done", ", ".join(answer["stages_done"]) or "nothing yet")
    if answer["stages_open"]:
        _fact(console, "Open", ", ".join(answer["stages_open"]))
    if answer["out"] and answer["outcome"] != "abandoned":
        yet = "" if "publish" in answer["stages_done"] else " (not there yet)"
        console.print(f"Bundle   {answer['out']}{yet}", soft_wrap=True)


def _verify(console: Console, answer: Mapping[str, Any]) -> None:
    for check in answer["checks"]:
        mark = "[green]ok[/green]  " if check["passed"] else "[red]FAIL[/red]"
        console.print(f"{mark} {check['name']}: {check['detail']}")
    verdict = "verifies" if answer["passed"] else "does NOT verify"
    console.print(f"The bundle {answer['folder']} {verdict}.", soft_wrap=True)


def _account(console: Console, account: Mapping[str, Any]) -> None:
    state = " (closed)" if account["closed"] else ""
    console.print(
        f"[bold]{account['account']}[/bold]{state}: {account['neighbours']}, unit"
        f" {account['unit']}, composition {account['composition']}"
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "epsilon", "delta"):
        table.add_column(name)
    for word in ("total", "reserved", "spent", "left"):
        table.add_row(word, _number(account[word]["epsilon"]), _number(account[word]["delta"]))
    console.print(table)
    # What was given back unused is in the chain, and in --json; here it would only be noise.
    for item in account["releases"]:
        if item["outcome"] == "returned":
            continue
        console.print(
            f"  {item['release']}: epsilon {_number(item['epsilon'])}, delta"
            f" {_number(item['delta'])}, {item['outcome']}"
        )


def _accounts(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["accounts"]:
        console.print(
            "No account is open: dp-release ledger open ACCOUNT --epsilon E --by NAME --reason TEXT"
        )
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("account", "total", "reserved", "spent", "left", "releases"):
        table.add_column(name)
    for account in answer["accounts"]:
        table.add_row(
            account["account"] + (" (closed)" if account["closed"] else ""),
            *(_number(account[word]["epsilon"]) for word in ("total", "reserved", "spent", "left")),
            str(len(account["releases"])),
        )
    console.print(table)


def _charges(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["charges"]:
        console.print(f"Nothing is charged to account {answer['account']!r} yet.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("no.", "at", "release", "stage", "step", "cost", "mechanism", "scale"):
        table.add_column(name)
    for charge in answer["charges"]:
        event = charge["event"]
        table.add_row(
            str(charge["number"]),
            charge["at"][:10],
            charge["release"],
            charge["stage"],
            charge["step"],
            _number(_fraction(charge["cost"])),
            event["mechanism"].removeprefix("discrete-"),
            _number(_fraction(event["scale"])),
        )
    console.print(table)
    count = len(answer["charges"])
    console.print(f"{count} charge{'s' if count != 1 else ''} to account {answer['account']!r}.")


def _fact(console: Console, label: str, text: str) -> None:
    """Print a labelled sentence; what does not fit in a line goes on below itself."""
    indent = " " * 9
    lines = textwrap.fill(
        text,
        console.width,
        initial_indent=f"{label:<9}",
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    console.print(lines, markup=False)


def _unit(currency: str) -> str:
    return "epsilon" if currency == "pure" else "rho" if currency == "zcdp" else "mu²/2"


def _fraction(text: str) -> float:
    from fractions import Fraction

    return float(Fraction(text))


def _number(value: float) -> str:
    return f"{value:.4g}"


def _size(plan: Mapping[str, Any]) -> str:
    size = float(plan["memory_bytes"])
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
