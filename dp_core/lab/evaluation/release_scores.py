"""Scores of all sets of a release as plain values, with those of a resample of the file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from dp_core.bundle.quality.pair_errors import pair_noise, pair_states
from dp_core.bundle.quality.relations import pool_release
from dp_core.client.released import Released
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.field_scores.code_values import CodeValues, resample
from dp_core.lab.field_scores.file_scores import (
    MOST_PAIRS,
    FileScores,
    ScoredColumns,
    default_columns,
    equivalent_sample,
    file_scores,
    mean_headline,
    sample_records,
    sample_scores,
)
from dp_core.lab.measures.table_errors import PairRows, kind_errors
from dp_core.methods.code_values import scores_of
from dp_core.metrics.marginal_error import average_tvd
from dp_core.schema.definition import Schema
from dp_core.text.pages.answer import plain

FORMAT = 1
_SEED = 20_261_127


def code_values(schema: Schema) -> CodeValues:
    """Return the numbers that the codes of a schema stand for.

    A bin stands for the mean of its values, an ordinal level for its rank. A column of two levels
    and no order of its own is nominal.
    """
    return CodeValues(schema.domain, scores_of(schema))


def expected_noise(
    schema: Schema,
    released: Sequence[Released],
    columns: Sequence[str],
    *,
    records: float,
    rows: float | None = None,
) -> dict[frozenset[str], float] | None:
    """Return the TVD that noise is expected to cause in each pair with one of these columns.

    Args:
        schema: The schema as written, not on a grid.
        released: Everything that was measured.
        columns: Columns of the subgroups.
        records: Public or estimated number of records.
        rows: Number of records if it is public, otherwise None.

    Returns:
        TVD by pair; None if the noisy tables determine none of the pairs.
    """
    names = schema.domain.columns
    if len(names) < 2 or not released:
        return None
    states = {
        pair: state
        for pair, state in pair_states(released, names, schema.domain.nested).items()
        if not {*columns}.isdisjoint(pair)
    }
    found = pair_noise(pool_release(schema, released, rows=rows), released, states, records=records)
    known = {frozenset(pair): one.tvd for pair, one in found.items() if one.tvd is not None}
    return known or None


def score_sets(
    real: Dataset,
    sets: Sequence[Dataset],
    schema: Schema,
    *,
    asked: ScoredColumns | None = None,
    noise: Mapping[frozenset[str], float] | None = None,
    mean_tvd: Sequence[Mapping[int, float]] | None = None,
) -> dict[str, object]:
    """Return the scores of each set, their means, and those of a resample of the file.

    The resample draws as many real records with replacement: sampling error, and no protection.

    Args:
        real: The real file, in the codes of the schema; not empty.
        sets: The synthetic sets, in the same codes; at least one, none empty.
        schema: The schema as written, not on a grid.
        asked: Columns of the scores that need some; by default those of `default_columns`.
        noise: Expected TVD of pairs, from `expected_noise`; None if it is not known.
        mean_tvd: For each set its average TVD by number of columns, if it is known already.

    Raises:
        ValueError: if a file is empty.
    """
    values, zeros = code_values(schema), schema.zeros
    asked = asked or default_columns(schema.domain)
    real = sample_records(real)
    averages = [None] * len(sets) if mean_tvd is None else mean_tvd
    scored = [
        file_scores(real, each, values, asked=asked, zeros=zeros, noise=noise, mean_tvd=known)
        for each, known in zip(sets, averages, strict=True)
    ]
    drawn = resample(real, np.random.default_rng(_SEED))
    near = {
        ways: average_tvd(real, drawn, ways, most=MOST_PAIRS if ways == 2 else None).mean
        for ways in (2, 3)
        if ways <= len(real.domain)
    }
    reference = file_scores(real, drawn, values, asked=asked, zeros=zeros, mean_tvd=near)
    means = mean_headline(scored)
    score = means["k_marginal"]
    samples = sample_scores(real) if len(real.domain) > 1 else {}
    return {
        "format": FORMAT,
        "quasi_identifiers": list(asked.quasi),
        "mean": plain(means),
        "resample": plain(reference.headline),
        "equivalent_sample": (
            equivalent_sample(score, samples) if samples and score is not None else None
        ),
        "samples": [{"share": share, "k_marginal": one} for share, one in samples.items()],
        "equity": _mean_equity(scored, schema),
        "sets": [_scores_with_labels(one, schema) for one in scored],
    }


def _scores_with_labels(one: FileScores, schema: Schema) -> dict[str, object]:
    """Return a set's scores with the labels of groups; subgroups are given as means elsewhere."""
    found = one.to_json()
    if one.regression is not None:
        for each in found["regression"]["groups"]:
            each["group"] = [
                schema.column(name).code_labels()[code]
                for name, code in zip(one.regression.by, each["group"], strict=False)
            ]
    return found


def _mean_equity(scored: Sequence[FileScores], schema: Schema) -> list[dict[str, object]]:
    """Return the errors by level, mean over the sets, the most unequal column first."""
    found: list[dict[str, object]] = []
    for position, first in enumerate(scored[0].equity):
        every = [one.equity[position] for one in scored]
        labels = schema.column(first.column).code_labels()
        levels: list[dict[str, object]] = []
        for code in sorted({level.code for one in every for level in one.levels}):
            mine = [level for one in every for level in one.levels if level.code == code]
            error = math.fsum(level.error for level in mine) / len(mine)
            expected = math.fsum(level.expected for level in mine) / len(mine)
            levels.append(
                {
                    "level": labels[code],
                    "real": mine[0].real,
                    "synthetic": sum(level.synthetic for level in mine) / len(mine),
                    "error": error,
                    "expected": expected,
                    "ratio": error / expected if expected > 0 else None,
                }
            )
        spreads = [one.spread for one in every if one.spread is not None]
        found.append(
            {
                "column": first.column,
                "worst_over_best": math.fsum(spreads) / len(spreads) if spreads else None,
                "noise_known": first.noise,
                "levels": levels,
            }
        )
    return sorted(found, key=lambda one: -cast("float", one["worst_over_best"] or 0.0))


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
