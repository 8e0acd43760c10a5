"""Noisy tables: what is measured before selection, and what selection chose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dp_core.canonical import canonical_json
from dp_core.domain import Clique
from dp_core.marginals import Measurement
from dp_core.privacy import Stage
from dp_core.selection.base import Selection
from tasks.run import Run
from tasks.stage import stage
from tasks.stores.artifacts import write_atomically

SELECTION, MARGINALS = "selection.json", "marginals.parquet"


def basics(run: Run) -> tuple[Measurement, ...]:
    """Return the number of rows and the one-way tables, where the plan pays for them.

    Committed results are read back; calling this again costs nothing.
    """
    costs = run.plan.costs
    found: list[Measurement] = []
    for replicate in _replicates(run):
        if costs["total"]:
            found += _measure(run, "total", Selection(((),), (Fraction(1),)), replicate)
        if costs["one_way"]:
            found += _measure(run, "one_way", run.plan.one_way(), replicate)
    return tuple(found)


@stage("basics")
def measure_basics(run: Run) -> Mapping[str, object]:
    """Measure the number of rows and the one-way tables."""
    basics(run)
    return {"rows": run.curator.public_rows()}


@stage("measure")
def measure_marginals(run: Run) -> None:
    """Measure the selected tables, and write every noisy table where the public side reads it."""
    from dp_core.bundle.marginals_file import write_marginals

    selection = read_selection(run)
    found = list(basics(run))
    replicates = _replicates(run)
    for position, replicate in enumerate(replicates):
        found += _measure(run, "measure", selection, replicate)
        run.progress("measure", (position + 1) / len(replicates))
    write_marginals(run.folder.public / MARGINALS, found, run.spec.schema)


def write_selection(run: Run, selection: Selection) -> None:
    """Store a selection; it is public."""
    values = {
        "cliques": [list(clique) for clique in selection.cliques],
        "weights": [str(weight) for weight in selection.weights],
        "note": dict(selection.note),
    }
    write_atomically(run.folder.public / SELECTION, canonical_json(values))


def read_selection(run: Run) -> Selection:
    """Return the stored selection."""
    values = json.loads((run.folder.public / SELECTION).read_bytes())
    return Selection(
        tuple(tuple(clique) for clique in values["cliques"]),
        tuple(Fraction(weight) for weight in values["weights"]),
        values["note"],
    )


def _measure(
    run: Run, stage_name: Stage, selection: Selection, replicate: int
) -> tuple[Measurement, ...]:
    budget = run.plan.costs[stage_name] / run.plan.replicates
    return run.curator.measure(
        stage_name,
        selection.cliques,
        [budget * weight for weight in selection.weights],
        replicate=replicate,
    )


def _replicates(run: Run) -> Sequence[int]:
    """Return 0 for the one shared measurement, or 1..m."""
    return range(1, run.plan.replicates + 1) if run.spec.mode == "split" else (0,)


def certain_cliques(run: Run) -> tuple[Clique, ...]:
    """Return the tables that will be counted whatever the selection finds, in one pass."""
    cliques: list[Clique] = [table.clique for table in run.plan.tables]
    if run.plan.costs["select"]:
        cliques += run.spec.selector.needs(run.spec.schema.domain)
    return tuple(dict.fromkeys(cliques))
