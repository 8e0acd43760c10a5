"""The stage `synthesize`: draws the m sets from the fitted models, and reads nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.reconstruction.sampling.drawing_progress import step_of
from dp_core.plan.procedure import decode_piece, piece_sizes, tables_of_set
from tasks.drawing.drawn_pieces import Drawn, drawn_pieces
from tasks.run.public_files import codes_folder, synthetic_codes, synthetic_files
from tasks.run.release_run import Run
from tasks.stages.reconstruct import restored_models
from tasks.stages.stage_task import stage

_DRAWN = 0.98  # part of the stage after all pieces are drawn


@stage("synthesize")
def synthesize(run: Run) -> Mapping[str, object]:
    """Draw every set, keep its codes for the stage `check`, and write its decoded values."""
    models = restored_models(run)
    numbers = run.spec.set_numbers
    sizes = {number: piece_sizes(run.plan, models, number) for number in numbers}
    off: list[float] = []
    persons: list[int] = []
    # When all pieces are drawn, the last set is still to be written.
    told = step_of(partial(run.progress, "synthesize"), 0.0, _DRAWN)
    with drawn_pieces(run.plan, models, numbers, progress=told) as pieces:
        for number in numbers:
            mine = itertools.islice(pieces, len(sizes[number]))
            left, members = _write_set(run, number, mine, sizes[number][0])
            off += [] if left is None else [left]
            persons += [] if members is None else [members]
    # `off`: largest relative deviation of each set's weights from public totals, if there are any.
    # The best set, if there is one, comes first.
    facts = {"rows": [sum(sizes[number]) for number in numbers], "off": off}
    return {**facts, "persons": persons} if run.spec.schema.linked else facts


def _write_set(
    run: Run, number: int, pieces: Iterable[Drawn], size: int
) -> tuple[float | None, int | None]:
    """Write a set, and its codes.

    Args:
        run: The run.
        number: Number of the set; 0 is the best set.
        pieces: Pieces of the set, in order.
        size: Number of rows of each piece but the last.

    Returns:
        The deviation of its weights from the public totals, None if the schema has none, and its
        number of persons, None if its tables are not linked.
    """
    from dp_core.bundle.best_set import set_metadata
    from dp_core.bundle.files.parquet_file import write_synthetic
    from dp_core.confidential.code_store import StoreWriter
    from dp_core.methods.replicates.survey_weights import Calibrator

    schema, about = run.spec.schema, set_metadata(run.spec.release, number, run.spec.sets)
    paths = synthetic_files(run, number)
    paths[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    codes_folder(run, number).parent.mkdir(mode=0o700, exist_ok=True)

    def store_pieces() -> Iterator[Any]:
        with StoreWriter(codes_folder(run, number), schema.domain) as store:
            for piece, values in pieces:
                store.append(list(piece.codes))
                yield values

    if schema.linked is not None:
        (both,) = store_pieces()
        for path, table in zip(paths, tables_of_set(both), strict=True):
            write_synthetic(path, [table], about)
        return None, int(both.persons.num_rows)
    if not schema.calibration:
        write_synthetic(paths[0], store_pieces(), about)
        return None, None
    calibrator = Calibrator(schema)
    # Two passes, because the factor of a weight depends on the whole set, which may not fit in
    # memory.
    for table in store_pieces():
        calibrator.add(table)
    off = calibrator.settle()
    again = enumerate(_drawn_before(run, number, size))
    tables = (decode_piece(run.plan, piece, number, position) for position, piece in again)
    write_synthetic(paths[0], map(calibrator.apply, tables), about)
    return off, None


def _drawn_before(run: Run, number: int, size: int) -> Iterator[Dataset]:
    """Yield the rows of a stored set in the same pieces in which they were drawn."""
    store = synthetic_codes(run, number)
    held = np.zeros((len(store.domain), 0), dtype=store.domain.code_type)
    for chunk in range(store.chunks):
        held = np.concatenate([held, store.codes(chunk)], axis=1)
        while size and held.shape[1] >= size:
            yield Dataset(store.domain, held[:, :size])
            held = held[:, size:]
    if held.shape[1] or not store.chunks:
        yield Dataset(store.domain, held)
