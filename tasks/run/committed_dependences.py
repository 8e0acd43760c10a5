"""The noisy dependences of a selection are those that the ledger committed.

Posterior sets are drawn from them, and they lie in the selection's file, which the ledger does not
know. Their values are those of one charge, so they are compared with its committed result.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import StageFailed
from dp_core.methods.selection.candidates.pairs import DISTANCES, INDIF
from dp_core.methods.selection.selector import Selection
from dp_core.schema.privacy import Noise
from dp_core.wall.accounting.currency import NoiseScale
from dp_core.wall.household_values import in_households
from tasks.ledger.reservations import Charge, Reservation
from tasks.ledger.stored_result import read_result, require_as_committed, result_path

_CLOSE = 1e-9  # relative difference of standard deviations that is rounding


def require_committed_dependences(
    selections: Sequence[Selection],
    noisy: Path,
    reservation: Reservation,
    charges: Sequence[Charge],
    file: Path,
    *,
    shares: int = 1,
) -> None:
    """Refuse dependences that no committed result holds; a selection without any is accepted.

    Args:
        selections: Selections of the release.
        noisy: Folder of its noisy results.
        reservation: Reservation of the release that measured.
        charges: All its charges.
        file: File of the selections, for the message.
        shares: Shares of a record, in which the charges count; 1 by default.

    Raises:
        StageFailed: if a noisy result is not as committed, or a value, the noise or the unit of a
            dependence is not that of the charge.
    """
    if all(selection.dependences is None for selection in selections):
        return
    chosen = [charge for charge in charges if charge.stage == "select"]
    # A checksum alone does not show who wrote a file; the ledger's hash does.
    require_as_committed(noisy, reservation, chosen)
    paid = [charge for charge in chosen if charge.step in (INDIF, DISTANCES)]
    for selection in selections:
        asked = selection.dependences
        if asked is None:
            continue
        if not any(
            np.array_equal(in_households(values, shares), np.array(asked.values))
            and abs(stddev / shares - asked.stddev) <= _CLOSE * asked.stddev
            and unit == asked.unit
            for values, stddev, unit in (_noisy_values(charge, noisy) for charge in paid)
        ):
            raise StageFailed(
                f"{file} does not hold the noisy dependences that the ledger committed; restore it"
                " from a backup, then resume. Nothing is lost.",
                row="committed-result-gone",
            )


def _noisy_values(charge: Charge, noisy: Path) -> tuple[NDArray[np.int64], float, int]:
    """Return the noisy values of a charge, their standard deviation, and units in a record."""
    stored = read_result(result_path(noisy, charge.batch))
    event = charge.body["event"]
    assert isinstance(event, dict)
    kind: Noise = "gaussian" if event["mechanism"] == "discrete-gaussian" else "laplace"
    stddev = NoiseScale(kind, float(Fraction(event["scale"]))).stddev
    asks = charge.body["asks"]
    assert isinstance(asks, dict)
    unit = int(asks.get("grid", 1))
    if stored is None or charge.number not in stored.header["charges"]:
        return np.zeros(0, dtype=np.int64), stddev, unit
    return stored.values[stored.header["charges"].index(charge.number)].ravel(), stddev, unit
