"""Whether a plan fixes every noisy release in advance. Part of the trusted core: it decides a cost.

The guarantee of a release may be computed numerically from the losses of its events (`tightest`,
in `wall.accounting.guarantee`) only if no event depended on an earlier answer. That theorem needs
the number of events, and the noise of each, to be known before the data are touched. A wrong True
here understates epsilon; a wrong False only states a larger epsilon than necessary. Whatever is
unknown is therefore False.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.accounts.requested import TABLE_STAGES
from dp_core.errors import BadInput
from dp_core.methods import registry
from dp_core.methods.selection.selector import PlannedSelector


def fixed_beforehand(document: Mapping[str, Any]) -> bool:
    """Return whether a plan alone fixes how many tables are measured and the noise of each.

    True if the release pays only for stages that measure tables, and its selection never looks at
    the data. A `PlannedSelector` never does: its `select` is final and asks the curator nothing.
    What it measures follows from the domain and from public terms: budget and noise, no values.

    Args:
        document: `Plan.document()`, or the untrusted copy of it that a bundle contains.

    Raises:
        Exception: a lookup, type or value error if the document does not have the shape of a plan.
    """
    paid = {stage for stage, cost in document["costs"].items() if cost != "0"}
    if "select" not in document["spec"]:
        return False  # a parametric method
    try:
        method = registry.find("selection", document["spec"]["select"]["method"])
    except BadInput:
        return False  # a method of a later version, which may look at the data
    # privacy: only events that no answer has influenced may be composed by their losses.
    return paid <= TABLE_STAGES and issubclass(method, PlannedSelector)
