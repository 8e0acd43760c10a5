"""The stages of a release in their order, and what the program must know about each."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dp_core.accounts.requested import OCCASIONAL


@dataclass(frozen=True, slots=True)
class StageRow:
    """What is known about a stage besides its task.

    Attributes:
        name: Its public name; that of its task.
        words: What it does, for the person who waits for it.
        reads_data: Whether it asks the confidential process about the data, unless the release
            uses the tables of an earlier one.
        of_sets: Whether it makes or checks synthetic sets; a release of tables has no such stage.
        of_tables: Whether a release has it that uses the tables of an earlier one.
        repeatable: Whether it reads stored public results only, so that it can be made again.
    """

    name: str
    words: str
    reads_data: bool = False
    of_sets: bool = False
    of_tables: bool = False
    repeatable: bool = False


STAGE_TABLE = (
    StageRow("reuse", "Take the tables of the earlier release", of_tables=True),
    StageRow("validate", "Validate against the schema", reads_data=True),
    StageRow("discretize", "Discretize to codes", reads_data=True),
    StageRow("domain", "Choose bins and levels privately", reads_data=True),
    StageRow("count", "Count marginals", reads_data=True),
    StageRow("basics", "Measure rows and one-way tables", reads_data=True),
    StageRow("select", "Select tables privately", reads_data=True),
    StageRow("measure", "Measure tables", reads_data=True),
    StageRow("analyses", "Measure declared analyses", reads_data=True),
    StageRow("reconstruct", "Reconstruct a model", of_sets=True, of_tables=True, repeatable=True),
    StageRow("synthesize", "Synthesize the sets", of_sets=True, of_tables=True, repeatable=True),
    StageRow("check", "Check quality", reads_data=True, of_sets=True, of_tables=True),
    StageRow("publish", "Publish the bundle", of_tables=True),
)
STAGE_NAMES = tuple(row.name for row in STAGE_TABLE)
STAGE_WORDS = {row.name: row.words for row in STAGE_TABLE}
CONFIDENTIAL_STAGES = tuple(row.name for row in STAGE_TABLE if row.reads_data)
REPEATABLE = tuple(row.name for row in STAGE_TABLE if row.repeatable)


def stages_of(costs: Collection[str], sets: int = 1, *, reuses: bool = False) -> tuple[str, ...]:
    """Return the stages of a release in their order; some are only in some releases.

    Args:
        costs: Paying stages of its plan.
        sets: Number of its synthetic sets, 1 by default.
        reuses: Whether it uses the tables of an earlier release; False by default.
    """
    if reuses:
        return tuple(row.name for row in STAGE_TABLE if row.of_tables)
    left_out = {"reuse", *OCCASIONAL}.difference(costs)
    return tuple(
        row.name for row in STAGE_TABLE if row.name not in left_out and (sets or not row.of_sets)
    )


def stages_from(stage: str) -> tuple[str, ...]:
    """Return a repeatable stage and those that use its result, in order, but `publish`."""
    rows = STAGE_TABLE[STAGE_NAMES.index(stage) :]
    return tuple(row.name for row in rows if row.of_sets)
