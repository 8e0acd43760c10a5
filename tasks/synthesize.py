"""The m synthetic sets. Public side: reads fitted models, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.reconstruction.base import Model
from tasks.reconstruct import generator, restored_models
from tasks.run import Run
from tasks.stage import stage

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.code_store import CodeStore
    from dp_core.dataset import Dataset

PIECE_ROWS = 500_000
"""Rows drawn at a time where a model's rows are independent: bounds memory on large releases."""

THREADS = 2


@stage("synthesize")
def synthesize(run: Run) -> Mapping[str, object]:
    """Draw every set, keep its codes for the checks, and write it in the schema's own words."""
    models = restored_models(run)
    finished = 0

    def draw(number: int) -> int:
        nonlocal finished
        model = models[0 if run.spec.mode == "shared" else number]
        rows = run.spec.rows or model.rows
        _write_set(run, number, model, rows)
        finished += 1
        run.progress("synthesize", finished / run.spec.sets)
        return rows

    # The kernels let go of the interpreter; each set has a generator of its own, so the
    # result does not depend on which thread draws it, or when.
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        rows = list(pool.map(draw, range(1, run.spec.sets + 1)))
    return {"rows": rows}


def synthetic_file(run: Run, number: int) -> Path:
    """Return the path of a synthetic set, numbered from 1, in the run's public folder."""
    return run.folder.public / "synthetic" / f"set-{number}.parquet"


def synthetic_codes(run: Run, number: int) -> CodeStore:
    """Return a synthetic set as codes."""
    from dp_core.code_store import CodeStore

    return CodeStore(_codes_folder(run, number), run.spec.schema.domain)


def _codes_folder(run: Run, number: int) -> Path:
    return run.folder.public / "codes" / f"set-{number}"


def _write_set(run: Run, number: int, model: Model, rows: int) -> None:
    from dp_core.bundle.synthetic_file import write_synthetic
    from dp_core.code_store import StoreWriter
    from dp_core.codec import decode

    schema = run.spec.schema
    path = synthetic_file(run, number)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _codes_folder(run, number).parent.mkdir(mode=0o700, exist_ok=True)
    with StoreWriter(_codes_folder(run, number), schema.domain) as store:

        def tables() -> Iterator[pa.Table]:
            for position, piece in enumerate(_pieces(run, number, model, rows)):
                store.append(list(piece.codes))
                rng = generator(run, f"decode {position}", number)
                yield decode(schema, piece, rng=rng)

        write_synthetic(path, tables())


def _pieces(run: Run, number: int, model: Model, rows: int) -> Iterator[Dataset]:
    """Yield the rows of a set; every one of them obeys the structural zeros."""
    size = PIECE_ROWS if model.streams else max(rows, 1)
    for position, start in enumerate(range(0, max(rows, 1), size)):
        rng = generator(run, f"sample {position}", number)
        piece = model.sample(min(size, rows - start), rng=rng)
        yield run.spec.schema.zeros.repair(piece, rng=rng)
