"""Reads the share of each stage: the stated one, or the preset's part of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dp_core.accounts.requested import OCCASIONAL, PAYING_STAGES, Privacy
from dp_core.errors import BadInput
from dp_core.kernel.privacy import Neighbours, Stage
from dp_core.plan.presets import Preset
from dp_core.plan.release_spec import name_of
from dp_core.text.documents.node import Node

KNOWING: tuple[Stage, ...] = ("one_way", "total")
"""Stages whose results a selection may use."""
LOOKING: tuple[Stage, ...] = (*KNOWING, "select", "measure")
"""Stages of which a share in the spec decides that the data are looked at before measuring."""


ANALYSES_SHARE = Fraction(3, 10)
"""Default share of declared analyses."""


def resolve_shares(
    stated: Mapping[Stage, Fraction], preset: Mapping[Stage, Fraction]
) -> Mapping[Stage, Fraction]:
    """Return the share of every paying stage; they sum to exactly 1.

    Stated shares are kept. The other stages divide the rest in proportion to their shares in the
    preset.

    Args:
        stated: Nonnegative shares that the spec states.
        preset: Nonnegative shares of the preset; a missing stage has 0. The result omits a stage of
            `OCCASIONAL` if neither names it.

    Raises:
        ValueError: if the stated shares sum to more than 1, or to less and no stage takes the rest.

    >>> shares = resolve_shares({"measure": Fraction(1, 2)}, {"select": Fraction(1, 10)})
    >>> shares["select"], shares["total"]
    (Fraction(1, 2), Fraction(0, 1))
    """
    total = sum(stated.values(), Fraction(0))
    listing = ", ".join(f"{stage} {share}" for stage, share in stated.items())
    if total > 1:
        raise ValueError(f"the shares sum to {total}, more than 1 ({listing}); lower one of them.")
    weights = {stage: preset.get(stage, Fraction(0)) for stage in PAYING_STAGES}
    weights = {stage: weight for stage, weight in weights.items() if stage not in stated}
    left, weight_sum = 1 - total, sum(weights.values(), Fraction(0))
    if left and not weight_sum:
        raise ValueError(
            f"the shares sum to {total}, less than 1 ({listing}), and no other stage of this"
            f" method uses the rest; raise one of them by {left}."
        )
    return {
        stage: stated[stage]
        if stage in stated
        else (left * weights[stage] / weight_sum if left else Fraction(0))
        for stage in PAYING_STAGES
        if stage not in OCCASIONAL or stage in stated or stage in preset
    }


def read_shares(
    root: Node,
    sections: Mapping[str, Node],
    preset: Preset,
    privacy: Privacy,
    selector: Any,
    *,
    domain: Fraction,
    analyses: bool = False,
) -> Mapping[Stage, Fraction]:
    """Return the share of every paying stage, as stated or from the preset; they sum to exactly 1.

    Args:
        root: Top of the spec.
        sections: Nodes of the spec, by stage.
        preset: Preset of the release.
        privacy: Guarantee of the release.
        selector: The selection, or the parametric method in its place.
        domain: Default share for private bins and levels; 0 if the schema has none.
        analyses: Whether the spec declares analyses; False by default.

    Raises:
        BadInput: if the shares do not sum to 1, a stage cannot use its share, or lacks one.
    """
    nodes: dict[Stage, Node] = {}
    for stage in PAYING_STAGES:
        entries = sections[stage].entries()
        if "share" in entries:
            nodes[stage] = entries["share"]
    stated = {stage: node.fraction(minimum=0, maximum=1) for stage, node in nodes.items()}
    if stated.get("total") and privacy.relation.rows_public:
        raise nodes["total"].error(
            "must be 0 under replace-one, because the number of rows is public; remove it."
        )
    if stated.get("select") and not selector.adaptive:
        raise nodes["select"].error(
            f"must be 0, because {name_of(selector)} does not look at the data; remove it."
        )
    # Shares that cannot be used are not taken from the preset either.
    unused = {"total"} if privacy.relation.rows_public else set()
    unused |= selector.idle
    usable = {stage: share for stage, share in preset.shares.items() if stage not in unused}
    if analyses:
        usable = _with_part(usable, "analyses", ANALYSES_SHARE)
    if domain:
        usable = _with_part(usable, "domain", domain)
    elif stated.get("domain"):
        raise nodes["domain"].error(
            "pays for privately chosen bins and levels, but the schema has none; remove this share,"
            " or write bins: {private: 12} for a column of the schema."
        )
    else:
        stated.pop("domain", None)
    try:
        shares = resolve_shares(stated, usable)
    except ValueError as error:
        raise BadInput(f"{root.source}: {error}") from None
    if selector.adaptive and not shares["select"]:
        raise sections["select"].error(
            f"{name_of(selector)} looks at the data and needs a share of the budget; add one, for"
            " example share: 0.1."
        )
    if analyses and not shares["analyses"]:
        raise sections["analyses"].error(
            "have no budget; give them a share, for example analyses: {formulas: [...], share:"
            " 0.3}."
        )
    if domain and not shares["domain"]:
        raise nodes["domain" if "domain" in nodes else next(iter(nodes))].error(
            "leaves no budget for the stage domain, which chooses the private bins and levels of"
            f" the schema; give domain a share, for example {domain}."
        )
    if not shares["measure"] and "records" not in selector.gives:
        raise sections["measure"].error(
            f"has no budget left ({_listing(shares)}); give measure a share."
        )
    measured = [stage for stage in KNOWING if shares[stage]]
    place = sections["synthesize" if preset.synthesize else "select"]
    _check_known(sections, place, selector, privacy.relation.of_rows, measured)
    return shares


def _with_part(
    usable: Mapping[Stage, Fraction], stage: Stage, share: Fraction
) -> dict[Stage, Fraction]:
    """Return shares in which one more stage has a part, and the others divide the rest."""
    left = (1 - share) / sum(usable.values(), Fraction(0))
    return {**{other: own * left for other, own in usable.items()}, stage: share}


def _check_known(
    sections: Mapping[str, Node],
    place: Node,
    selector: Any,
    neighbours: Neighbours,
    measured: Sequence[Stage],
) -> None:
    """Refuse a selection, at its place, that needs results of a stage without a share.

    The error is at the stated share of 0 that should be positive, if there is one.
    """

    def refusal(measured: Sequence[Stage]) -> str:
        try:
            selector.check_basics(neighbours, measured)
        except BadInput as error:
            return error.message
        return ""

    message = refusal(measured)
    if not message:
        return
    for stage in KNOWING:
        share = sections[stage].entries().get("share")
        # A stage that it does not need would not change the message.
        if share is not None and refusal([*measured, stage]) != message:
            raise share.error(message)
    raise place.error(message)


def _listing(shares: Mapping[Stage, Fraction]) -> str:
    return ", ".join(f"{stage} {share}" for stage, share in shares.items() if share)
