"""Finds finished stages whose results are missing or damaged, so that they are run again.

Codes, models and synthetic sets are made again at no cost. A committed noisy result is never drawn
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.run.confidential_run import ConfidentialRun
from tasks.run.stage_table import CONFIDENTIAL_STAGES
from tasks.stages.choose_domain import read_domain
from tasks.stages.measure_analyses import read_analyses
from tasks.stages.measure_marginals import read_selections
from tasks.stages.reconstruct import read_released, restored_models
from tasks.stages.synthesize import synthetic_codes, synthetic_files

if TYPE_CHECKING:
    from dp_core.confidential.code_store import CodeStore


def forget_lost(run: ConfidentialRun) -> None:
    """Mark finished stages as not done if their result is still needed and cannot be read."""
    if run.folder.done("publish") is not None:
        return
    products: dict[str, Callable[[ConfidentialRun], object]] = {
        "domain": read_domain,
        "select": read_selections,
        "measure": read_released,
        "analyses": read_analyses,
        "reuse": read_released,
        "reconstruct": restored_models,
        "synthesize": _open_sets,
    }
    for stage, read in products.items():
        _forget_unless(read, run, stage)
    if needs_data(run):
        _forget_unless(_open_codes, run, "discretize")


def needs_data(run: ConfidentialRun) -> bool:
    """Return whether a stage that reads the confidential data is not done yet."""
    if run.reuses:
        return False
    stages = [stage for stage in CONFIDENTIAL_STAGES if run.has(stage)]
    return any(run.folder.done(stage) is None for stage in stages)


def _forget_unless(
    read: Callable[[ConfidentialRun], object], run: ConfidentialRun, stage: str
) -> None:
    if run.folder.done(stage) is None:
        return
    try:
        read(run)
    except Exception:  # each reader of a damaged file raises its own kind of error
        run.folder.forget(stage)


def _open_codes(run: ConfidentialRun) -> None:
    _open_chunks(run.stored)


def _open_sets(run: ConfidentialRun) -> None:
    import pyarrow.parquet as pq

    for number in range(1, run.spec.sets + 1):
        _open_chunks(synthetic_codes(run, number))
        for file in synthetic_files(run, number):
            with pq.ParquetFile(file):
                pass


def _open_chunks(store: CodeStore) -> None:
    """Read every chunk of a store, so that a missing or damaged file raises an error."""
    for chunk in range(store.chunks):
        store.read(chunk)
