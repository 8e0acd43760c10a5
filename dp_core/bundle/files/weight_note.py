"""What a bundle says of its survey weights, and whether that is so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from dp_core.bundle.files.codebook import synthetic_path
from dp_core.methods.replicates.survey_weights import Calibrator, in_words
from dp_core.schema.definition import Schema

TOLERANCE = 1e-9
"""Relative deviation from a total up to which it counts as met."""


def weights_statement(schema: Schema, off: Sequence[float]) -> dict[str, object] | None:
    """Return what the statement says of the weights; None: the file has none.

    Args:
        schema: Of the release.
        off: For each set the largest relative deviation from a public total.
    """
    weight = schema.weight
    if weight is None:
        return None
    return {
        "column": weight.name,
        "calibrated_to": [in_words(margin) for margin in schema.calibration],
        # The smallest number of two digits that is not below it; 0 where every total is met.
        "largest_deviation": [0 if one <= TOLERANCE else _up(one) for one in off],
    }


def misses(folder: Path, schema: Schema, stated: Sequence[float]) -> list[str]:
    """Return a sentence for each set whose weights are not as near to the totals as is stated."""
    import pyarrow as pa

    from dp_core.bundle.files.parquet_file import read_parquet

    weight = schema.weight
    if weight is None or not schema.calibration:
        return []
    names = {name for margin in schema.calibration for name in margin.columns}
    wrong = []
    for number, largest in enumerate(stated, start=1):
        path, calibrator = synthetic_path(number), Calibrator(schema)
        try:
            for batch in read_parquet(folder / path, [weight.name, *sorted(names)]):
                calibrator.add(pa.Table.from_batches([batch]))
        except (OSError, pa.ArrowException, ValueError, KeyError):
            wrong.append(f"The weights of {path} cannot be read.")
            continue
        if not calibrator.deviation() <= max(largest, TOLERANCE):
            wrong.append(f"The weights of {path} do not add up to the totals as stated.")
    return wrong


def _up(value: float) -> float:
    """Return a number of two digits that is not below.

    >>> _up(0.012301), _up(1.0)
    (0.013, 1.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")
