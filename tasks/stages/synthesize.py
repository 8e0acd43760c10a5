"""The m synthetic sets. Public side: reads fitted models, and nothing else."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from dp_core.spec.procedure import LANES, SetDrawing, piece_sizes
from dp_core.tables.dataset import Dataset
from tasks.run.release_run import Run
from tasks.stages.reconstruct import generator, restored_models
from tasks.stages.stage_task import stage
from tasks.support.processors import threads

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.confidential.code_store import CodeStore

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Drawn: TypeAlias = "tuple[Dataset, pa.Table]"
"""A piece of a set, as codes and in the schema's words."""


@stage("synthesize")
def synthesize(run: Run) -> Mapping[str, object]:
    """Draw every set, keep its codes for the checks, and write it in the schema's own words."""
    models = restored_models(run)
    numbers = range(1, run.spec.sets + 1)
    sizes = {number: piece_sizes(run.plan, models, number) for number in numbers}

    def parts() -> Iterator[tuple[SetDrawing, int, int]]:
        for number in numbers:
            # Made when its turn comes, and gone with its last piece: it remembers what was drawn.
            drawing = SetDrawing(run.plan, models, number)
            yield from ((drawing, number, position) for position in range(len(sizes[number])))

    def draw(part: tuple[SetDrawing, int, int]) -> Drawn:
        drawing, number, position = part
        piece = drawing.draw(position)
        return piece, decoded(run, piece, number, position)

    off: list[float] = []
    at_once = min(threads(), LANES)
    # The kernels let go of the interpreter; each piece has a generator of its own, so the
    # result does not depend on which thread draws it, or when.
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        drawn = ahead(pool, draw, parts(), most=min(at_once + 1, LANES))
        pieces = _told(run, drawn, sum(map(len, sizes.values())))
        for number in numbers:
            mine = itertools.islice(pieces, len(sizes[number]))
            left = _write_set(run, number, mine, sizes[number][0])
            if left is not None:
                off.append(left)
    # How far the weights of each set are from the public totals, where there are any.
    return {"rows": [sum(sizes[number]) for number in numbers], "off": off}


def ahead(
    pool: Executor, work: Callable[[Argument], Result], arguments: Iterable[Argument], *, most: int
) -> Iterator[Result]:
    """Yield results in order, at most `most` of them not yet taken; each begins in order too."""
    waiting: deque[Future[Result]] = deque()
    for argument in arguments:
        if len(waiting) == most:
            yield waiting.popleft().result()
        waiting.append(pool.submit(work, argument))
    while waiting:
        yield waiting.popleft().result()


def _told(run: Run, pieces: Iterable[Drawn], number: int) -> Iterator[Drawn]:
    """Yield pieces and tell how many of them there have been."""
    for done, piece in enumerate(pieces, start=1):
        run.progress("synthesize", done / number)
        yield piece


def synthetic_file(run: Run, number: int) -> Path:
    """Return the path of a synthetic set, numbered from 1, in the run's public folder."""
    return run.folder.public / "synthetic" / f"set-{number}.parquet"


def synthetic_codes(run: Run, number: int) -> CodeStore:
    """Return a synthetic set as codes."""
    from dp_core.confidential.code_store import CodeStore

    return CodeStore(_codes_folder(run, number), run.spec.schema.domain)


def _codes_folder(run: Run, number: int) -> Path:
    return run.folder.public / "codes" / f"set-{number}"


def decoded(run: Run, piece: Dataset, number: int, position: int) -> pa.Table:
    """Return a piece of a set in the schema's words; the same ones each time."""
    from dp_core.schema.decoding import decode

    return decode(run.spec.schema, piece, rng=generator(run, f"decode {position}", number))


def _write_set(run: Run, number: int, pieces: Iterable[Drawn], size: int) -> float | None:
    """Write a set and return how far its weights are from the public totals; None: it has none.

    Args:
        run: The release.
        number: Of the set.
        pieces: Its records.
        size: Of all pieces but the last.
    """
    from dp_core.bundle.files.parquet_file import write_synthetic
    from dp_core.confidential.code_store import StoreWriter
    from dp_core.methods.replicates.survey_weights import Calibrator

    schema = run.spec.schema
    path = synthetic_file(run, number)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _codes_folder(run, number).parent.mkdir(mode=0o700, exist_ok=True)

    def stored() -> Iterator[pa.Table]:
        with StoreWriter(_codes_folder(run, number), schema.domain) as store:
            for piece, table in pieces:
                store.append(list(piece.codes))
                yield table

    if not schema.calibration:
        write_synthetic(path, stored())
        return None
    calibrator = Calibrator(schema)
    # Twice: what a weight is multiplied by depends on all of the set, which need not be in memory.
    for table in stored():
        calibrator.add(table)
    off = calibrator.settle()
    again = enumerate(_drawn_before(run, number, size))
    tables = (decoded(run, piece, number, position) for position, piece in again)
    write_synthetic(path, map(calibrator.apply, tables))
    return off


def _drawn_before(run: Run, number: int, size: int) -> Iterator[Dataset]:
    """Yield the rows of a set that is stored, in the pieces in which they were drawn."""
    store = synthetic_codes(run, number)
    held = np.zeros((len(store.domain), 0), dtype=np.uint16)
    for chunk in range(store.chunks):
        held = np.concatenate([held, store.codes(chunk)], axis=1)
        while size and held.shape[1] >= size:
            yield Dataset(store.domain, held[:, :size])
            held = held[:, size:]
    if held.shape[1] or not store.chunks:
        yield Dataset(store.domain, held)
