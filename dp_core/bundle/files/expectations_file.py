"""The file `expectations.json`: the suite of the sets, and which expectations each set meets.

The suite has the JSON form of Great Expectations; it is about the texts of the confidential file,
so a label of a set is read as the text that it stands for. All of it is public: it follows from the
schema and the sets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.bundle.best_set import BEST, set_in_words
from dp_core.schema.definition import Schema
from dp_core.schema.expectations.suite import rules_of, suite_document
from dp_core.text.pages.number_texts import plural

EXPECTATIONS = "expectations.json"
FORMAT = 1


def expectations_document(schema: Schema, failed: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    """Return the content of the file.

    Args:
        schema: The schema as written, with the bins and levels that were chosen privately.
        failed: By number of each set, the numbers of the expectations that it does not meet.
    """
    suite = suite_document(schema, sets=True)
    return {
        "format": FORMAT,
        "suite": suite,
        "sets": [
            {
                "set": "best" if number == BEST else number,
                "success": not numbers,
                "evaluated_expectations": len(suite["expectations"]),
                "not_met": list(numbers),
            }
            for number, numbers in failed.items()
        ],
    }


def expectations_text(schema: Schema, failed: Mapping[int, Sequence[int]]) -> bytes:
    """Return the file, JSON in UTF-8 with a final newline."""
    document = expectations_document(schema, failed)
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode("utf-8")


def expectations_in_words(schema: Schema, failed: Mapping[int, Sequence[int]]) -> str:
    """Return a sentence that says which expectations the sets meet."""
    rules = rules_of(schema, sets=True)
    own = sum(rule.kind == "own" for rule in rules)
    count = f"{plural(len(rules), 'expectation')} of the schema"
    count += f" ({own} of them stated by its authors)" if own else ""
    missed = [(number, numbers) for number, numbers in failed.items() if numbers]
    sets = "The set meets" if len(failed) == 1 else f"All {len(failed)} sets meet"
    if BEST in failed:
        sets = f"The best set and all {len(failed) - 1} others meet"
    if not missed:
        return f"{sets} the {count} by which the confidential file was checked."
    listed = "; ".join(
        f"{set_in_words(number)} does not meet {', '.join(rules[at].type for at in numbers)}"
        for number, numbers in missed
    )
    return f"Of the {count}, {listed}."
