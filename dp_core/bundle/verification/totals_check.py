"""Check that every set has exactly as many records of each level as the public totals say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dp_core.bundle.files.codebook import set_paths
from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.schema.definition import MISSING_LABEL, Schema


def missed_totals(folder: Path, schema: Schema, sets: int) -> list[str]:
    """Return a sentence for each set and column that does not meet its public totals.

    Args:
        folder: The bundle.
        schema: Its schema; of linked tables, households are counted.
        sets: Number of its sets.
    """
    wrong: list[str] = []
    names = [each.column for each in schema.totals]
    for number in range(1, sets + 1) if names else ():
        path = set_paths(schema, number)[0]
        try:
            found = count_labels(read_parquet(folder / path, names), names)
        except (OSError, pa.ArrowException, ValueError, KeyError):
            wrong.append(f"{path} cannot be compared with the public totals.")
            continue
        for each in schema.totals:
            labels = schema.column(each.column).code_labels()
            wanted = Counter(dict(zip(labels, each.counts, strict=True)))
            off = next(
                (
                    label
                    for label in {**wanted, **found[each.column]}
                    if wanted[label] != found[each.column][label]
                ),
                None,
            )
            if off is not None:
                wrong.append(
                    f"{path} has {found[each.column][off]:,} records with {each.column} ="
                    f" {off!r}, but their public total is {wanted[off]:,}."
                )
    return wrong


def count_labels(
    batches: Iterable[pa.RecordBatch], names: Iterable[str]
) -> dict[str, Counter[str]]:
    """Return the number of records by label, for each of some columns.

    Args:
        batches: Records of a set.
        names: The columns.
    """
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for batch in batches:
        for name, counts in found.items():
            for pair in pc.value_counts(batch.column(name).cast(pa.string())).to_pylist():
                label = pair["values"]
                counts[MISSING_LABEL if label is None else label] += pair["counts"]
    return found
