"""Makes a finished stage again from stored public results, at no cost: `resume --from`."""

from __future__ import annotations

from pathlib import Path

from dp_core.errors import BadInput, similar
from tasks.ledger.ledger import Ledger
from tasks.run.home import home_id
from tasks.run.stage_table import REPEATABLE, stages_from
from tasks.support.run_folder import RunFolder


def forget_from(home: Path, ledger: Ledger, release: str, stage: str) -> None:
    """Mark a finished stage, and those that use its result, as not done.

    The plan fixes the seed, so the stages give the same result, unless something that changed it
    was repaired, such as a damaged file. Nothing is charged or drawn again: a charged
    check asks the same question and reads its stored answer.

    Args:
        home: The home.
        ledger: Ledger of the home.
        release: Name of the release.
        stage: Stage to make again; one of `REPEATABLE`.

    Raises:
        BadInput: if the stage cannot be made again, is not finished, or the release awaits approval
            or has ended, because what was looked at or published may not be made again.
        StageFailed: if another process works on the release.
    """
    if stage not in REPEATABLE:
        raise BadInput(
            f"--from takes {' or '.join(REPEATABLE)}, which read stored results only, not"
            f" {stage!r}.{similar(stage, REPEATABLE)}"
        )
    with ledger.lease(release, home_id(home)) as writer:
        # Without the lease another process could settle the release in between.
        reservation = writer.reservation()
        if reservation is None or reservation.outcome is not None:
            how = "has no open reservation" if reservation is None else f"is {reservation.outcome}"
            raise BadInput(
                f"Release {release!r} {how}, so none of its stages can be repeated; `dp-release"
                f" status {release}` shows how it ended."
            )
        if writer.gate(reservation).held is not None:
            raise BadInput(
                f"Release {release!r} awaits approval, so none of its stages can be repeated: a"
                f" person may have looked at it. Decide with `dp-release release publish {release}`"
                f" or `dp-release release withdraw {release}`.",
                row="held",
            )
        folder = RunFolder(home, release, reservation.link)
        if folder.done(stage) is None:
            raise BadInput(
                f"Stage {stage!r} of release {release!r} is not finished yet; `dp-release resume"
                f" {release}` without --from runs it."
            )
        for later in reversed(stages_from(stage)):
            folder.forget(later)
