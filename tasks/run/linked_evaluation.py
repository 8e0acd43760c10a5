"""An evaluation of a published release of linked tables against its two files, for staff only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.run.internal_evaluation import write_pages

if TYPE_CHECKING:
    from dp_core.confidential.linked.linked_source import LinkedSource
    from dp_core.schema.definition import Schema
    from dp_core.tables.dataset import Dataset
    from dp_core.tables.household_rows import HouseholdRows

_SEED = 20_261_130


def write_linked_evaluation(
    folder: Path, source: LinkedSource, schema: Schema, bundle: Path, *, sets: int, name: str
) -> Path:
    """Write the evaluation as an HTML page and as JSON, which only the owner can read.

    Args:
        folder: Internal folder of the run.
        source: The confidential tables.
        schema: Schema of the published sets.
        bundle: Folder of the published bundle.
        sets: Number of its sets.
        name: Name of the two files, without suffix.

    Returns:
        The path of the page.

    Privacy:
        As `tasks.run.internal_evaluation.write_evaluation`.
    """

    def sections() -> dict[str, Any]:
        return _sections(source, schema, bundle, sets)

    return write_pages(folder, schema.title, sections, name=name)


def _sections(source: LinkedSource, schema: Schema, bundle: Path, sets: int) -> dict[str, Any]:
    from dp_core.analysis.evaluation.linked_scores import score_linked_sets
    from dp_core.bundle.files.linked_sets import codes_of_set, pair_row_blocks, read_linked_set
    from dp_core.confidential.linked.linked_source import read_households

    class Pieces:
        """Pair rows of households, made again whenever they are counted."""

        def __init__(self, rows: HouseholdRows) -> None:
            self.rows = rows

        def __call__(self) -> Iterator[Dataset]:
            return pair_row_blocks(schema, self.rows)

    real = read_households(schema, source)
    households = real.sizes.size
    drawn = real.take(np.random.default_rng(_SEED).integers(0, households, households))
    published = [
        codes_of_set(schema, read_linked_set(bundle, schema, number))
        for number in range(1, sets + 1)
    ]
    return {
        "linked": score_linked_sets(
            schema.domain, Pieces(real), [Pieces(each) for each in published], Pieces(drawn)
        )
    }
