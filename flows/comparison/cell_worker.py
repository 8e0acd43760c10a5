"""Runs one cell of a comparison in a process of its own, started as `python -m` this module.

With one process for each run, processor time and peak memory can be measured, and a time limit or a
crash does not affect other runs. The job is one line of JSON on standard input, which stays open
while the parent waits; the result is a file.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time
import traceback
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dp_core.confidential.code_store import CodeStore
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import ReleaseError
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.noise.exact_samplers import add_noise
from dp_core.lab.comparison import formula_comparison
from dp_core.lab.comparison.cells import Result, write_result
from dp_core.lab.comparison.formula_comparison import VALUES, judge_formulas
from dp_core.lab.comparison.judging import (
    Task,
    judge,
    judge_linked,
    noisy_numbers,
    seen_by_classifiers,
    split,
)
from dp_core.lab.comparison.variants import plan_of_variant
from dp_core.lab.evaluation.release_scores import code_values
from dp_core.lab.field_scores.code_values import resample
from dp_core.methods.parametric.drawn_records import Modelling
from dp_core.methods.reconstruction.reconstructor import Model
from dp_core.metrics.marginal_error import HouseholdTally
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import carry_out, sample
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.grid import Coarsening
from dp_core.schema.reading.schema_file import parse_schema
from flows.processes.child_process import read_job

_MEGABYTE = 10**6
_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def perform(job: Mapping[str, Any]) -> Result:
    """Return the result of a cell.

    Args:
        job: `codes` (folder of the store), `hold_out`, `seed`, `spec` (path, None for the
            bootstrap), `target` and `nominal` (None for no classifier), `by` (columns of
            subgroups), `attacks` (whether they are made), `formulas` (of the file's values,
            which are beside its codes) and `schema` (as a document).
    """
    schema = parse_schema(job["schema"])
    try:
        real, test = split(_read(Path(job["codes"]), schema.domain), job["hold_out"])
        plan = plan_of_variant(Path(job["spec"]), seed=job["seed"]) if job["spec"] else None
        seen_by_method = real
        if plan is not None and plan.spec.schema.coarse is not None:
            place = grid_codes(Path(job["codes"]), plan.spec)
            fine = _read(place, plan.spec.schema.domain)
            seen_by_method, _ = split(fine, job["hold_out"])
        # Load what every method needs, so that it is not counted for the first one.
        MemoryCounter(real).count([()])
        add_noise("laplace", np.zeros(1, np.int64), Fraction(1))
        meter = Meter()
        synthetic, numbers, models = _synthesize(plan, seen_by_method, job["seed"])
        used = meter.usage() | {"numbers": numbers}
    except ReleaseError as error:
        return Result("refused", {}, error.message)
    if schema.linked is not None:
        households = HouseholdTally(schema.domain, [()]).add(synthetic).rows
        return Result("done", judge_linked(real, synthetic) | used | {"rows": households})
    task = Task(job["target"], tuple(job["nominal"])) if job["target"] else None
    learn = None
    if plan is None and not job["hold_out"]:
        learn = resample(seen_by_classifiers(real), rng=np.random.default_rng(job["seed"]))
    figures = judge(
        real,
        synthetic,
        task=task,
        test=test,
        learn=learn,
        values=code_values(schema),
        by=tuple(job["by"]),
        attacked=job["attacks"],
        seed=job["seed"],
    )
    pairs = figures["tvd2"]
    if pairs is not None and numbers is not None:
        figures["cost"] = pairs * numbers  # CIPHER, Section 3.1
    figures |= used | {"rows": synthetic.rows}
    sentence = ""
    if job["formulas"]:
        found, sentence = judge_formulas(
            Path(job["codes"]) / VALUES,
            job["formulas"],
            schema,
            (plan, models) if plan else None,
            hold_out=job["hold_out"],
            seed=job["seed"],
            analyse=formula_comparison.analyse,
        )
        figures |= found
    return Result("done", figures, sentence)


def _synthesize(
    plan: Plan | None, real: Dataset, seed: int
) -> tuple[Dataset, int | None, Mapping[int, Model]]:
    """Return synthetic records, the number of noisy numbers behind them, and their models."""
    if plan is None:
        return resample(real, rng=np.random.default_rng(seed)), None, {}
    linked = plan.spec.schema.linked
    counter: Counter = MemoryCounter(real)
    if linked is not None:
        counter = HouseholdCounter(counter, linked)
    outcome = carry_out(plan, counter)
    # Only the first set is judged, because all have the same distribution.
    own = [item for item in outcome.released if item.replicate in (0, 1)]
    drawn = sample(plan, outcome.models, 1)
    if plan.spec.schema.coarse is not None:
        drawn = Coarsening(plan.spec.schema).dataset(drawn)
    return drawn, noisy_numbers(own), outcome.models


def grid_codes(folder: Path, spec: ReleaseSpec) -> Path:
    """Return the folder of the codes on a method's grid, below that of the schema's codes."""
    assert isinstance(spec.reconstructor, Modelling)
    return folder / f"grid-{spec.reconstructor.positions}"


def _read(folder: Path, domain: Domain) -> Dataset:
    store = CodeStore(folder, domain)
    codes = [store.codes(chunk) for chunk in range(store.chunks)]
    return Dataset(domain, np.ascontiguousarray(np.concatenate(codes, axis=1)))


class Meter:
    """Measures processor time and memory from its creation on.

    On Linux the earlier peak is reset. Elsewhere, or if the system does not allow that, the peak is
    that of the process since its start.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            _FORGET.write_text("5")  # resets the peak to what is resident now
        self._cpu = time.process_time()

    def usage(self) -> dict[str, float | None]:
        """Return the resources used since the meter was created, as figures.

        `cpu` is the processor time of all threads, in seconds. `memory` is the largest resident
        memory of the process in megabytes, including the interpreter.
        """
        return {"cpu": time.process_time() - self._cpu, "memory": _peak() / _MEGABYTE}


def _peak() -> int:
    # getrusage is the last resort: its peak survives exec, so it could be the parent's.
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    """Read a job, run it and write its result."""
    job = read_job()
    try:
        result = perform(job)
    except MemoryError:
        result = Result("failed", {}, "It ran out of memory.")
    except Exception as error:
        Path(job["trace"]).write_text(traceback.format_exc(), encoding="utf-8")
        what = f"It stopped with {type(error).__name__}; the traceback is in {job['trace']}."
        result = Result("failed", {}, what)
    write_result(Path(job["result"]), job["head"], result)


if __name__ == "__main__":
    main()
