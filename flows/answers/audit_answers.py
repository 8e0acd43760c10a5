"""The answer of `dp-release audit`: how close neighbouring files came to each charged bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from dp_core.audit.report import CLOSE, HOUSEHOLDS, UNITS, Findings, unit_name
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Block, Listing, Sentence, numbers, texts

UNITS_SHOWN = tuple(
    zip(
        [unit_name(relation) for relation in (*UNITS, *HOUSEHOLDS)],
        (
            *("1 row\nadded", "1 row\nreplaced", "3 rows\nadded", "3 rows\nreplaced"),
            *("house-\nhold\nadded", "house-\nhold\nreplaced"),
        ),
        strict=True,
    )
)
"""Units of privacy by their names, and the heads of their columns in the table."""
MOST_VIOLATIONS = 20


def audit_answer(findings: Findings) -> CommandAnswer:
    """Return what an audit found, by question.

    The exit code is 1 if a bound was exceeded, or a complete audit left something out.
    """
    by = attrgetter("question", "mechanism", "bound", "unit")
    ordered = sorted(findings.closest.items(), key=lambda item: by(item[0]))
    values = {
        "passed": findings.passed,
        "complete": findings.complete,
        "releases": findings.releases,
        "charges": findings.charges,
        "compared": sum(found.compared for found in findings.closest.values()),
        # Each with the two files that came closest to it.
        "bounds": [
            {
                "question": kind.question,
                "mechanism": kind.mechanism,
                "bound": kind.bound,
                "unit": kind.unit,
                "ratio": round(found.ratio, 6),
                "reached": found.ratio >= CLOSE,
                "charges": found.charges,
                "compared": found.compared,
                "where": found.where,
                "asked": found.asked,
                "files": found.files,
            }
            for kind, found in ordered
        ],
        "violations": findings.violations,
        "unasked": findings.unasked,
        "unmoved": [
            f"{kind.question} ({kind.mechanism}, {kind.unit})" for kind in findings.unmoved
        ],
        "not_made": findings.refused,
    }
    return CommandAnswer(values, (*_page(values),), 0 if findings.passed else 1)


def _page(answer: Mapping[str, Any]) -> Iterator[Block]:
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for each in answer["bounds"]:
        key = each["question"], each["mechanism"], each["bound"]
        found.setdefault(key, {})[each["unit"]] = each["ratio"]
    rows = [
        (*key, *(f"{ratios[name]:.3f}" if name in ratios else "-" for name, _ in UNITS_SHOWN))
        for key, ratios in found.items()
    ]
    heads = numbers(*(head for _, head in UNITS_SHOWN))
    yield Listing((*texts("Question", "Mechanism", "Bound"), *heads), rows)
    yield Sentence(
        "Each number is the largest distance found between the exact answers on two neighbouring"
        " files, divided by the charged sensitivity. More than 1.000 is a violation. Less means"
        " that the bound is larger than necessary, or that the search did not find the worst"
        " files."
    )
    yield Sentence(
        f"{plural(answer['releases'], 'release')}, {plural(answer['charges'], 'charge')},"
        f" {plural(answer['compared'], 'comparison')}."
    )
    violations = answer["violations"]
    for violation in violations[:MOST_VIOLATIONS]:
        yield Sentence(f"Violation: {violation}", warns=True)
    if len(violations) > MOST_VIOLATIONS:
        yield Sentence(f"And {len(violations) - MOST_VIOLATIONS:,} more (--json).")
    if answer["complete"] and answer["unasked"]:
        yield Sentence(f"Never asked: {', '.join(answer['unasked'])}.")
    if answer["unmoved"]:
        yield Sentence(f"Never changed by a neighbour: {', '.join(answer['unmoved'])}.")
    yield Sentence(_verdict(answer))


def _verdict(answer: Mapping[str, Any]) -> str:
    if answer["violations"]:
        return f"Failed: {plural(len(answer['violations']), 'violation')}."
    if not answer["passed"]:
        return "Failed: some questions or mechanisms were not tested."
    if not answer["complete"]:
        return "Passed. This audit was partial; run `dp-release audit` for the full one."
    return "Passed: no answers on neighbouring files differ by more than was charged."
