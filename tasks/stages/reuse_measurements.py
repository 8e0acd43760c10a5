"""The stage `reuse`: takes the committed noisy tables of an earlier release instead of measuring.

It replaces all stages that look at the data, and reads public files only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from dp_core.errors import StageFailed
from dp_core.kernel.canonical import canonical_json
from tasks.run.earlier_releases import committed_tables, require_committed
from tasks.run.release_run import Run
from tasks.stages.measure_marginals import MARGINALS, SELECTION
from tasks.stages.stage_task import stage
from tasks.support.run_folder import RunFolder, write_atomically


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
    basics = folder.done("basics")
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
    facts: dict[str, object] = {"from": earlier.used.to_json(), "rows": basics["rows"]}
    schema = run.planned.spec.schema
    if schema.private:
        from dp_core.plan.chosen_domain import choose

        # Computed from the committed counts, so it needs no trust in another file.
        chosen = choose(schema, measured).items()
        facts["choices"] = [choice.entry(name) for name, choice in chosen]
    return facts
