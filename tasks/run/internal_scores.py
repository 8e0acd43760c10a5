"""Scores of the sets against the confidential file, for staff only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.run.internal_inference import result_or, unheard

if TYPE_CHECKING:
    from dp_core.confidential.code_store import CodeStore
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.kernel.released import Released
    from dp_core.lab.field_scores.file_scores import ScoredColumns
    from dp_core.schema.definition import Schema

_SEED = 20_261_128


def scores_or_reason(
    file: CodeStore,
    sets: Sequence[CodeStore],
    schema: Schema,
    released: Sequence[Released],
    *,
    records: float,
    rows: float | None,
    asked: ScoredColumns | None = None,
    mean_tvd: Sequence[Mapping[int, float]] | None = None,
) -> dict[str, object]:
    """Return the scores of the sets, for the internal folder. CONFIDENTIAL.

    Args:
        file: Codes of the confidential file, in those of `schema`.
        sets: Codes of each set.
        schema: Schema of these codes; on a grid, scores are in its own bins.
        released: Everything that was measured.
        records: Public or estimated number of records.
        rows: Number of records if it is public, otherwise None.
        asked: Columns of the scores that need some; by default a public rule chooses.
        mean_tvd: For each set its average TVD by number of columns, if it is known already.

    Returns:
        The scores; without sets nothing; if they cannot be computed, the reason under `problem`.

    Privacy:
        Whether a score can be computed may depend on one record. So nothing is printed, and no
        error is raised because of the data.
    """
    from dp_core.lab.evaluation.release_scores import expected_noise, score_sets
    from dp_core.lab.field_scores.file_scores import default_columns

    if not sets:
        return {}

    def scores() -> dict[str, object]:
        own = schema.coarse or schema
        chosen = asked or default_columns(own.domain)
        noise = expected_noise(own, released, chosen.by, records=records, rows=rows)
        real, *drawn = (read_sample(store, schema) for store in (file, *sets))
        return score_sets(real, drawn, own, asked=chosen, noise=noise, mean_tvd=mean_tvd)

    with unheard():
        return result_or(scores, lambda error: {"problem": f"The scores stopped with {error}."})


def read_sample(
    store: CodeStore, schema: Schema, *, most: int | None = None, coarse: bool = True
) -> Dataset:
    """Return a simple random sample of a store's records, with a fixed seed. CONFIDENTIAL.

    Args:
        store: A code store.
        schema: Schema of its codes.
        most: Largest number of records; as many as scores use by default.
        coarse: Whether codes on a grid become those of the schema's own bins; they do by default.
    """
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.lab.field_scores.file_scores import MOST_RECORDS
    from dp_core.schema.grid import Coarsening

    number = min(store.rows, MOST_RECORDS if most is None else most)
    places = np.sort(np.random.default_rng(_SEED).choice(store.rows, number, replace=False))
    pieces, start = [], 0
    for chunk in range(store.chunks):
        columns = store.read(chunk)
        rows = len(columns[0]) if columns else 0
        inside = places[(places >= start) & (places < start + rows)] - start
        # Only the pages that hold these records are read.
        own = [column[inside] for column in columns]
        pieces.append(np.stack(own, dtype=store.domain.code_type))
        start += rows
    codes = np.ascontiguousarray(np.concatenate(pieces, axis=1))
    data = Dataset(schema.domain, codes)
    return data if schema.coarse is None or not coarse else Coarsening(schema).dataset(data)
