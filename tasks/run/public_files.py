"""Files of a run's public folder that several stages read: noisy tables, and the sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.bundle.files.codebook import set_name
from dp_core.client.released import Released
from dp_core.methods.reconstruction.estimates.pooled_parts import pooled_records
from tasks.run.release_run import Run

if TYPE_CHECKING:
    from dp_core.confidential.code_store import CodeStore

MARGINALS = "marginals.parquet"
"""Name of the file of all noisy results."""


def read_released(run: Run) -> tuple[Released, ...]:
    """Return all noisy results of the run's stage `measure`."""
    from dp_core.bundle.files.marginals_file import read_marginals

    return read_marginals(run.folder.public / MARGINALS)


def synthetic_place(run: Run, number: int) -> Path:
    """Return the file of a set in the run's public folder; 0 is the best set.

    Of linked tables, it is the folder with the files of the two tables.
    """
    name = set_name(number)
    return run.folder.public / "synthetic" / (name if run.spec.schema.linked else f"{name}.parquet")


def synthetic_files(run: Run, number: int) -> tuple[Path, ...]:
    """Return the files of a set: one, or those of households and of persons."""
    place, linked = synthetic_place(run, number), run.spec.schema.linked
    if linked is None:
        return (place,)
    return tuple(place / f"{name}.parquet" for name in (linked.households, linked.persons))


def codes_folder(run: Run, number: int) -> Path:
    """Return the folder of a set's codes."""
    return run.folder.public / "codes" / set_name(number)


def synthetic_codes(run: Run, number: int) -> CodeStore:
    """Return the code store of a set; 0 is the best set."""
    from dp_core.confidential.code_store import CodeStore

    return CodeStore(codes_folder(run, number), run.spec.schema.domain)


def records(run: Run) -> int:
    """Return the number of records of the file: the public number, or the models' noisy one.

    Without sets there is no model, and all noisy tables together tell it. The models of sets that
    meet public totals have the number of these.
    """
    if run.schema.totals or not run.has("reconstruct"):
        public = run.fact("basics", "rows")
        if isinstance(public, int):
            return public
        return pooled_records(run.schema.domain, read_released(run))
    models = run.fact("reconstruct", "models")
    assert isinstance(models, list)
    # The model of the best set, if there is one beside others, comes first.
    fitted = [model["rows"] for model in models][-run.spec.sets :]
    return round(sum(fitted) / len(fitted))
