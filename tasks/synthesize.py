"""The m synthetic sets. Public side: reads fitted models, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dp_core.dataset import Dataset
from dp_core.reconstruction.base import Model
from tasks.reconstruct import generator, restored_models
from tasks.run import Run
from tasks.stage import stage

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.code_store import CodeStore

PIECE_ROWS = 500_000
"""Rows drawn at a time where a model's rows are independent: bounds memory on large releases."""

THREADS = 2


@stage("synthesize")
def synthesize(run: Run) -> Mapping[str, object]:
    """Draw every set, keep its codes for the checks, and write it in the schema's own words."""
    models = restored_models(run)
    finished = 0
    off: dict[int, float] = {}

    def draw(number: int) -> int:
        nonlocal finished
        model = models[0 if run.spec.mode == "shared" else number]
        rows = run.spec.rows or model.rows
        left = _write_set(run, number, model, rows)
        if left is not None:
            off[number] = left
        finished += 1
        run.progress("synthesize", finished / run.spec.sets)
        return rows

    # The kernels let go of the interpreter; each set has a generator of its own, so the
    # result does not depend on which thread draws it, or when.
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        rows = list(pool.map(draw, range(1, run.spec.sets + 1)))
    # How far the weights of each set are from the public totals, where there are any.
    return {"rows": rows, "off": [off[number] for number in sorted(off)]}


def synthetic_file(run: Run, number: int) -> Path:
    """Return the path of a synthetic set, numbered from 1, in the run's public folder."""
    return run.folder.public / "synthetic" / f"set-{number}.parquet"


def synthetic_codes(run: Run, number: int) -> CodeStore:
    """Return a synthetic set as codes."""
    from dp_core.code_store import CodeStore

    return CodeStore(_codes_folder(run, number), run.spec.schema.domain)


def _codes_folder(run: Run, number: int) -> Path:
    return run.folder.public / "codes" / f"set-{number}"


def _write_set(run: Run, number: int, model: Model, rows: int) -> float | None:
    """Write a set and return how far its weights are from the public totals; None: it has none."""
    from dp_core.bundle.synthetic_file import write_synthetic
    from dp_core.calibration import Calibrator
    from dp_core.code_store import StoreWriter
    from dp_core.codec import decode

    schema = run.spec.schema
    path = synthetic_file(run, number)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _codes_folder(run, number).parent.mkdir(mode=0o700, exist_ok=True)

    def drawn() -> Iterator[Dataset]:
        with StoreWriter(_codes_folder(run, number), schema.domain) as store:
            for piece in _pieces(run, number, model, rows):
                store.append(list(piece.codes))
                yield piece

    def decoded(pieces: Iterable[Dataset]) -> Iterator[pa.Table]:
        for position, piece in enumerate(pieces):
            yield decode(schema, piece, rng=generator(run, f"decode {position}", number))

    if not schema.calibration:
        write_synthetic(path, decoded(drawn()))
        return None
    calibrator = Calibrator(schema)
    # Twice: what a weight is multiplied by depends on all of the set, which need not be in memory.
    for table in decoded(drawn()):
        calibrator.add(table)
    off = calibrator.settle()
    size = PIECE_ROWS if model.streams else max(rows, 1)
    write_synthetic(path, map(calibrator.apply, decoded(_drawn_before(run, number, size))))
    return off


def _drawn_before(run: Run, number: int, size: int) -> Iterator[Dataset]:
    """Yield the rows of a set that is stored, in the pieces in which they were drawn."""
    store = synthetic_codes(run, number)
    held = np.zeros((len(store.domain), 0), dtype=np.uint16)
    for chunk in range(store.chunks):
        held = np.concatenate([held, store.codes(chunk)], axis=1)
        while held.shape[1] >= size:
            yield Dataset(store.domain, held[:, :size])
            held = held[:, size:]
    if held.shape[1] or not store.chunks:
        yield Dataset(store.domain, held)


def _pieces(run: Run, number: int, model: Model, rows: int) -> Iterator[Dataset]:
    """Yield the rows of a set; every one of them obeys the structural zeros."""
    size = PIECE_ROWS if model.streams else max(rows, 1)
    for position, start in enumerate(range(0, max(rows, 1), size)):
        rng = generator(run, f"sample {position}", number)
        piece = model.sample(min(size, rows - start), rng=rng)
        yield run.spec.schema.zeros.repair(piece, rng=rng)
