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
    stated = {str(key): str(value) for key, value in found.items()}
    words = prior_in_words(stated, protects=protected_by(plan["spec"]["privacy"]))
    return {**stated, "in_words": words}


def protected_by(privacy: Mapping[str, Any]) -> str:
    """Return the neighbouring relation and the unit of a release, in words.

    Args:
        privacy: What a plan states under `privacy`.

    >>> protected_by({"neighbours": "add-remove", "unit": "person", "max_rows": 4})
    'add-remove, unit person, max_rows 4'
    """
    limits = [f", {key} {privacy[key]}" for key in ("max_rows", "max_members") if key in privacy]
    return f"{privacy['neighbours']}, unit {privacy['unit']}{''.join(limits)}"


def source_in_words(prior: Mapping[str, Any]) -> str:
    """Return what a prior is; for a release that itself used a prior, also that prior, and so on.

    Args:
        prior: What a plan states under `prior`.
    """
    if "release" in prior:
        guarantee = f"epsilon {prior['epsilon']}, delta {prior['delta']}"
        found = f"release {prior['release']} ({guarantee}, account {prior['account']})"
    elif "file" in prior:
        found = f"the file {prior['file']}, which {prior['by']} declared public"
    else:
        found = "a public frame"
    return f"{found}, itself made with {prior['made_with']}" if "made_with" in prior else found


def prior_in_words(stated: Mapping[str, str], *, protects: str) -> str:
    """Return which public records were used and what that means for privacy, in words.

    Args:
        stated: What the plan states under `prior`.
        protects: Relation and unit of this release (`protected_by`).
    """
    use = (
        "They predict how columns depend on each other; the sets follow them as far as the noisy"
        " tables of this release agree. What was measured, and with how much noise, does not depend"
        " on them, so they cost no privacy budget."
    )
    if "release" in stated:
        name, account = stated["release"], stated["account"]
        words = (
            f"The sets were made with the sets of the published release {name}. {use} Release"
            f" {name} has its own guarantee (epsilon {stated['epsilon']}, delta {stated['delta']},"
            f" account {account}, {stated['protects']}): "
        )
        if stated["protects"] != protects:
            return words + (
                f"it is for other neighbours than those of this release ({protects}), so the two"
                " guarantees do not add up."
            )
        words += "anyone in both files is protected by the sum of the two guarantees."
        if "made_with" in stated:
            words += (
                f" Release {name} was itself made with {stated['made_with']}. For anyone who was"
                " in that file too, the guarantee of that file must be added."
            )
        return words
    if "file" in stated:
        return (
            f"The sets were made with the file {stated['file']}, which {stated['by']} declared"
            f" public (reason: {stated['reason']}). {use} The guarantee of this release does not"
            " protect anybody in that file."
        )
    return f"The sets were made with a public frame. {use}"
