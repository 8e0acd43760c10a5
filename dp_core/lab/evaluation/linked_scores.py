"""The distances of all sets of linked tables from the real files, by kind of table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_core.lab.measures.kind_error import PairRows, kind_errors
from dp_core.tables.domain import Domain

COUNTED = (
    "Tables of household columns count households. Tables with a person column count persons. In"
    " tables of two members, each household with at least two members counts 1. If the file has no"
    " such household, these tables have no figure."
)
"""What the distances count."""
NOTES = (
    COUNTED,
    "Scores of NIST's SDNist report, subgroups, classifiers and attacks are left out, because they"
    " assume independent records. Members of a household depend on each other.",
)
"""What the distances count, and which figures linked tables do not have."""


def score_linked_sets(
    domain: Domain, real: PairRows, sets: Sequence[PairRows], resample: PairRows
) -> dict[str, object]:
    """Return the mean TVD of each kind of tables, for the sets and for a resample of the file.

    Args:
        domain: The domain of pair rows.
        real: Pair rows of the real file.
        sets: Pair rows of the synthetic sets, at least one.
        resample: Pair rows of as many real households, drawn with replacement.
    """
    found = []
    for kind, (*errors, near) in kind_errors(domain, real, (*sets, resample)).items():
        worst = max(errors, key=lambda error: error.worst)
        found.append(
            {
                "kind": kind,
                "mean": math.fsum(error.mean for error in errors) / len(errors),
                "resample": near.mean,
                "sets": [error.mean for error in errors],
                "worst_tvd": worst.worst,
                "worst_table": list(worst.worst_clique),
                "tables": worst.tables,
                "skipped_because_too_large": worst.skipped,
            }
        )
    return {"kinds": found, "notes": list(NOTES)}
