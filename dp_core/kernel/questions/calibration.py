"""Whether what is charged covers its question: one rule for kernel, ledger and `verify`.

The kernel applies it before every charge, the ledger before it accepts an entry and whenever it is
audited, and `verify` to every receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.kernel.cost.sensitivity import count_bounds, in_shares
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.drawn_question import DrawnQuestion
from dp_core.kernel.errors import GARBAGE, BadInput
from dp_core.kernel.extensions import DRAWN, extension
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.grant import TABLE, Step
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import required


def calibrated(
    asks: Mapping[str, Any], event: Event, relation: Relation, domain: Domain | None = None
) -> bool | None:
    """Return whether an event is calibrated to the effect of one unit on its question.

    Args:
        asks: The question as a receipt describes it (`Step.asks`); it may be anything.
        event: The event that is charged for it.
        relation: The release's neighbouring relation.
        domain: Columns and numbers of codes that the question must be about; None (the default) if
            unknown.

    Returns:
        None if it describes no question whose sensitivity is proven for the relation and these
        columns and codes.
    """
    try:
        if asks["name"] in DRAWN:
            # privacy: thresholds and virtual records are proven for counts of records only.
            if relation.shares > 1:
                return None
            drawn: type[DrawnQuestion] = extension(asks["name"])
            return drawn.covered(asks, event, relation)
        if asks == TABLE:
            change, l1, l2_squared = in_shares(relation, count_bounds(relation))
        else:
            change, l1, l2_squared = required(asks, relation, domain)
    except (*GARBAGE, BadInput):
        return None
    match event:
        case LaplaceEvent(l1_sensitivity=stated):
            return stated >= l1
        case GaussianEvent(l2_sensitivity_squared=stated):
            return stated >= l2_squared
        case NoisyMaxEvent(sensitivity=stated):
            return stated >= change
    # privacy: the effect of one unit on any other mechanism is not known.
    return False


def require_calibrated(step: Step, relation: Relation, domain: Domain) -> None:
    """Raise ValueError unless the event of a step is calibrated to its question.

    Args:
        step: The step to be charged.
        relation: The release's neighbouring relation.
        domain: The columns of the file, and their numbers of codes.
    """
    if not calibrated(step.asks, step.event, relation, domain):
        raise ValueError(
            f"The event of step {step.name!r:.80} assumes a smaller effect of one unit than its"
            " question can have; nothing was charged."
        )
