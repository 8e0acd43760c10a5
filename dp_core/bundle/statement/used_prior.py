"""What the statement says about the public records that a release used as a prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def prior_statement(plan: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what `method.prior` says; None if the plan has no prior.

    Args:
        plan: `Plan.document()`, as Python values or as read from JSON.
    """
    found: Mapping[str, Any] | None = plan["spec"].get("prior")
    if not found:
        return None
    stated: dict[str, object] = {str(key): str(value) for key, value in found.items()}
    return {**stated, "in_words": prior_in_words(stated)}


def prior_in_words(stated: Mapping[str, object]) -> str:
    """Return which public records were used, and what that means for privacy, for people.

    Args:
        stated: What the plan states under `prior`.
    """
    use = (
        "They predict how columns depend, as far as the noisy tables of this release agree. What"
        " was measured, and with which noise, does not depend on them, so they cost no privacy"
        " budget."
    )
    if "release" in stated:
        name, account = stated["release"], stated["account"]
        return (
            f"The sets were made with the sets of the published release {name}. {use} Release"
            f" {name} has its own guarantee (epsilon {stated['epsilon']}, delta {stated['delta']},"
            f" account {account}): whoever was in both files is protected by the sum."
        )
    if "file" in stated:
        return (
            f"The sets were made with the file {stated['file']}, which {stated['by']} declared"
            f" public: {stated['reason']}. {use} This statement does not protect anybody in that"
            " file."
        )
    return f"The sets were made with a public frame. {use}"
