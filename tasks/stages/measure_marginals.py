"""The stages that count, select and measure tables: `count`, `basics`, `select` and `measure`.

The stage `reuse` replaces them: it takes the committed noisy tables of an earlier release and reads
public files only.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dp_core.client.curator import Curator
from dp_core.client.released import Measurement, Released
from dp_core.errors import StageFailed
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.selection.selector import Dependences, Selection
from dp_core.methods.trends import Trend
from dp_core.plan.procedure import measure_basics as measured_basics
from dp_core.plan.procedure import measure_selected, replicates, select
from dp_core.policies.stage_grant import StageGrant
from tasks.confidential.public_run import PublicRun
from tasks.run.earlier_releases import committed_tables, require_committed
from tasks.run.public_files import MARGINALS
from tasks.run.release_run import Run
from tasks.stages.choose_domain import read_domain
from tasks.stages.stage_task import granted_stage, stage
from tasks.support.run_folder import RunFolder, write_atomically

SELECTION, ROUNDS = "selection.json", "rounds.parquet"


def basics(run: PublicRun, curator: Curator) -> tuple[Measurement, ...]:
    """Return the noisy number of rows and the one-way tables, if the plan pays for them.

    Committed results are read back, so a second call costs nothing.
    """
    return tuple(
        found
        for replicate in replicates(run.plan)
        for found in measured_basics(run.plan, curator, replicate)
    )


@granted_stage("count")
def count_marginals(run: PublicRun, _grant: StageGrant) -> None:
    """Count, in one pass, the tables that are needed whatever the selection chooses.

    After a crash they are counted again, which costs no privacy.
    """
    run.confidential.work(run, "count")


@granted_stage("basics")
def measure_basics(run: PublicRun, grant: StageGrant) -> Mapping[str, object]:
    """Measure the number of rows and the one-way tables."""
    curator = run.curator(grant)
    basics(run, curator)
    return {"rows": curator.public_rows()}


@granted_stage("select")
def select_marginals(run: PublicRun, grant: StageGrant) -> None:
    """Choose the tables to measure with the selection's share of the budget.

    A selection that works in rounds also measures its tables here.
    """
    curator = run.curator(grant)
    known = () if run.plan.fixed_selection() is not None else basics(run, curator)
    write_selections(run, select(run.plan, curator, known))


@granted_stage("measure")
def measure_marginals(run: PublicRun, grant: StageGrant) -> None:
    """Measure the selected tables, and write all noisy tables to the run's public folder."""
    from dp_core.bundle.files.marginals_file import write_marginals

    selections, curator = read_selections(run), run.curator(grant)
    found: list[Released] = [*read_domain(run), *basics(run, curator)]
    numbers = replicates(run.plan)
    for position, replicate in enumerate(numbers):
        found += measure_selected(run.plan, curator, selections, replicate)
        run.progress("measure", (position + 1) / len(numbers))
    write_marginals(run.folder.public / MARGINALS, found, run.spec.schema)


def write_selections(run: Run, selections: tuple[Selection, ...]) -> None:
    """Store the selections, and the tables that they measured, in the run's public folder."""
    from dp_core.bundle.files.marginals_file import write_marginals

    values = [
        {
            "cliques": [list(clique) for clique in selection.cliques],
            "weights": [str(weight) for weight in selection.weights],
            "measured": len(selection.measured),
            "records": selection.records is not None,
            # Keep the order of the cliques, so that the same selection gives the same file.
            "interactions": [
                list(clique) for clique in selection.cliques if clique in selection.interactions
            ],
            "dependences": (
                dataclasses.asdict(selection.dependences) if selection.dependences else None
            ),
            "trends": [trend.to_json() for trend in selection.trends],
        }
        for selection in selections
    ]
    for number, selection in enumerate(selections):
        if selection.records is not None:
            content = io.BytesIO()
            np.save(content, selection.records.codes, allow_pickle=False)
            write_atomically(_records_file(run, number), content.getvalue())
    measured = [item for selection in selections for item in selection.measured]
    if measured:
        write_marginals(run.folder.public / ROUNDS, measured, run.spec.schema)
    # Write this file last: its presence means that the selection is complete.
    write_atomically(run.folder.public / SELECTION, canonical_json(values))


def read_selections(run: Run) -> tuple[Selection, ...]:
    """Return the selections that `write_selections` stored.

    Raises:
        OSError: if they were not stored.
    """
    from dp_core.bundle.files.marginals_file import read_marginals

    values = json.loads((run.folder.public / SELECTION).read_bytes())
    measured: list[Released] = []
    if any(each["measured"] for each in values):
        measured += read_marginals(run.folder.public / ROUNDS)
    found = []
    for number, each in enumerate(values):
        mine, measured = measured[: each["measured"]], measured[each["measured"] :]
        found.append(
            Selection(
                tuple(tuple(clique) for clique in each["cliques"]),
                tuple(Fraction(weight) for weight in each["weights"]),
                tuple(mine),
                _read_records(run, number) if each["records"] else None,
                # Runs of earlier versions lack this key.
                frozenset(tuple(clique) for clique in each.get("interactions", ())),
                _read_dependences(each.get("dependences")),
                tuple(Trend.from_json(trend) for trend in each.get("trends", ())),
            )
        )
    return tuple(found)


def _read_dependences(found: Mapping[str, Any] | None) -> Dependences | None:
    if found is None:
        return None
    pairs = tuple(tuple(pair) for pair in found["pairs"])
    # Runs of earlier versions lack the last two keys.
    unit, added = found.get("unit", 1), tuple(found.get("added", ()))
    return Dependences(pairs, tuple(found["values"]), found["stddev"], unit, added)


def _read_records(run: Run, number: int) -> Dataset:
    codes = np.load(_records_file(run, number), allow_pickle=False)
    return Dataset(run.spec.schema.domain, codes)


def _records_file(run: Run, number: int) -> Path:
    return run.folder.public / "models" / f"records-{number}.npy"


@stage("reuse", run_name="reuse tables of {run.spec.measurements.release}")
def reuse_measurements(run: Run) -> Mapping[str, object]:
    """Copy the noisy tables of the earlier release, after a comparison with the ledger's commits.

    Returns:
        Public facts: the release that measured, the public number of rows (None if it is noisy),
        and the privately chosen bins and levels.

    Raises:
        StageFailed: if the tables are missing, or are not what the ledger committed.
    """
    earlier = run.planned.spec.measurements
    assert earlier is not None
    path = committed_tables(run.home, run.ledger, earlier)
    copy = run.folder.public / MARGINALS
    write_atomically(copy, path.read_bytes())
    # The copy is compared again, because the file could have changed in between.
    measured = require_committed(copy, earlier)
    reservation = run.ledger.reservation(earlier.release)
    assert reservation is not None
    folder = RunFolder(run.home, earlier.release, reservation.link)
    basics = folder.facts_of("basics")
    try:
        selections = json.loads((folder.public / SELECTION).read_bytes())
    except (OSError, ValueError):
        selections = None
    if basics is None or selections is None:
        raise StageFailed(
            f"{folder.public} of release {earlier.release!r} lacks its number of rows or its"
            " selection; restore the folder from a backup, then resume. Nothing was spent.",
            row="measurements-unusable",
        )
    # What was measured while selecting is in the file of noisy tables too.
    kept = [{**selection, "measured": 0} for selection in selections]
    write_atomically(run.folder.public / SELECTION, canonical_json(kept))
    facts: dict[str, object] = {"from": asdict(earlier.used), "rows": basics["rows"]}
    schema = run.planned.spec.schema
    if schema.private:
        from dp_core.plan.chosen_domain import choose

        # Computed from the committed counts, so it needs no trust in another file.
        chosen = choose(schema, measured).items()
        facts["choices"] = [choice.entry(name) for name, choice in chosen]
    return facts
