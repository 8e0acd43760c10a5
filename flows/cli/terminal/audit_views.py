"""The terminal view of an audit: how close the answers came to each bound, and the violations."""

from __future__ import annotations

from rich.console import Console

from dp_core.audit.report import HOUSEHOLDS, UNITS, unit_name
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page_text import sentence, table_of
from flows.answers.audit_answers import AuditAnswer

UNITS_SHOWN = tuple(
    zip(
        [unit_name(relation) for relation in (*UNITS, *HOUSEHOLDS)],
        (
            *("1 row\nadded", "1 row\nreplaced", "3 rows\nadded", "3 rows\nreplaced"),
            *("household\nadded", "household\nreplaced"),
        ),
        strict=True,
    )
)
"""Units of privacy by their names, and the heads of their columns in the table."""
MOST_VIOLATIONS = 20


def audited(console: Console, answer: AuditAnswer) -> None:
    """Print the largest ratio of every bound, and every violation."""
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    for each in answer.bounds:
        rows.setdefault((each.question, each.mechanism, each.bound), {})[each.unit] = each.ratio
    heads = tuple(head for _, head in UNITS_SHOWN)
    table = table_of("Question", "Mechanism", "Bound", *heads, right=heads)
    for (question, mechanism, bound), ratios in rows.items():
        shown = [f"{ratios[name]:.3f}" if name in ratios else "-" for name, _ in UNITS_SHOWN]
        table.add_row(question, mechanism, bound, *shown)
    console.print(table)
    sentence(
        console,
        "Each number is the largest distance found between the exact answers on two neighbouring"
        " files, divided by the charged sensitivity. More than 1.000 is a violation. Less means"
        " that the bound is larger than necessary, or that the search did not find the worst"
        " files.",
    )
    sentence(
        console,
        f"{plural(answer.releases, 'release')}, {plural(answer.charges, 'charge')},"
        f" {plural(answer.compared, 'comparison')}.",
    )
    for found in answer.violations[:MOST_VIOLATIONS]:
        sentence(console, f"Violation: {found}")
    if len(answer.violations) > MOST_VIOLATIONS:
        sentence(console, f"And {len(answer.violations) - MOST_VIOLATIONS:,} more (--json).")
    if answer.complete and answer.unasked:
        sentence(console, f"Never asked: {', '.join(answer.unasked)}.")
    if answer.unmoved:
        sentence(console, f"Never changed by a neighbour: {', '.join(answer.unmoved)}.")
    sentence(console, _verdict(answer))


def _verdict(answer: AuditAnswer) -> str:
    if answer.violations:
        return f"Failed: {plural(len(answer.violations), 'violation')}."
    if not answer.passed:
        return "Failed: some questions or mechanisms were not tested."
    if not answer.complete:
        return "Passed. This audit was partial; run `dp-release audit` for the full one."
    return "Passed: no answers on neighbouring files differ by more than was charged."
