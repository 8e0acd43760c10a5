"""Check that the reservation and the noise of the receipts imply the stated guarantees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from dp_core.bundle.verification.claims import Claims, currency
from dp_core.bundle.verification.unknown_methods import (
    Undecided,
    undecided_by_method,
    unknown_selection,
)
from dp_core.errors import BadInput
from dp_core.kernel.cost.guarantee import PLD, shown
from dp_core.kernel.document import UNIT_KEYS, check_document, document_hash
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.extensions import EXTENSIONS
from dp_core.kernel.ledger.account_terms import unknown_terms
from dp_core.kernel.privacy import TABLE_STAGES
from dp_core.plan.fixed_plan import fixed_beforehand


def check_guarantee(claims: Claims) -> str | tuple[str, ...] | Undecided:
    """Return that reservation and noise imply the stated guarantees, or which they do not.

    Args:
        claims: Claims of the statement; they are not trusted.

    Raises:
        Exception: one of `claims.GARBAGE` if a value does not have the expected form.
    """
    body: Mapping[str, Any] = claims.reserve.body
    epsilon, delta = claims.enforced
    wrong: list[str] = []
    if (epsilon, delta) != (exact_fraction(body["epsilon"]), exact_fraction(body["delta"])):
        wrong.append("The stated (epsilon, delta) is not the one that was reserved.")
    wrong += contradicted_terms(claims)
    reserved = currency(*(body["currency"][name] for name in ("kind", "limit", "own_delta")))
    if reserved != claims.currency:
        wrong.append("The stated currency or total is not the one that was reserved.")
    if epsilon <= 0 or not 0 <= delta < 1:
        return (*wrong, "The stated (epsilon, delta) is not a guarantee.")
    if not reserved.implies(epsilon, delta):
        wrong.append(
            "The reserved total does not imply the stated (epsilon, delta) under the accounting of"
            f" this program; the release was made with {claims.program}."
        )
    if wrong:
        return tuple(wrong)
    sentences: list[str] = []
    unknown = unknown_selection(claims.plan)
    undecided = False
    for claim in (claims.tightest, claims.also):
        if claim is None:
            continue
        pair = claim.epsilon, claim.delta
        words = f"epsilon {float(claim.epsilon):.6g} at delta {float(claim.delta):.3g}"
        implied = pair == claims.enforced or reserved.implies(*pair)
        if claim.theorem == reserved.theorem and implied:
            sentences.append(f"The reserved total implies {words}.")
        elif claim.theorem == PLD and _noise_implies(claims, *pair):
            undecided = bool(unknown)
            sentences.append(f"The noise of the planned tables gives {words}.")
        else:
            wrong.append(
                f"Neither the reserved total nor the noise of the tables gives {words} under the"
                " stated theorem."
            )
    if undecided and not wrong:
        what = "whether its plan fixed all noise beforehand, as the stated guarantee requires,"
        return undecided_by_method(unknown, claims.program, what)
    return tuple(wrong) or " ".join(sentences)


def contradicted_terms(claims: Claims) -> Iterator[str]:
    """Yield how unit and document of a reservation differ from those of schema and plan."""
    body: Mapping[str, Any] = claims.reserve.body
    if unknown := unknown_terms(claims.reserve):
        yield f"The reservation has terms that this program does not know: {unknown[0]!r:.40}."
    reserved_unit = {name: body[name] for name in UNIT_KEYS if name in body}
    if (claims.relation.neighbours, claims.unit) != (body["neighbours"], reserved_unit):
        yield "The stated neighbours or unit are not those that were reserved."
    # privacy: rows above the limit are dropped by what the schema states; the shares of a household
    # follow from its most members.
    if claims.unit != claims.schema.unit.stated:
        yield "The stated unit is not that of the schema."
    # privacy: the file is coded, and units are limited, by the document that was reserved.
    try:
        check_document(claims.document)
    except BadInput:
        yield "Schema and plan compile to a document that contradicts itself."
    if document_hash(claims.document) != body["document"]:
        yield "The document that was reserved is not that of the schema and the plan."
    reserved = list(body.get("extensions", ()))
    if reserved != claims.plan["extensions"]:
        yield "The reserved extensions are not those of the plan."
    asked = {str(charge.asks["name"]) for charge in claims.charges} & {*EXTENSIONS}
    for name in sorted(asked - {*reserved}):
        yield f"It asked {name!r}, an extension that it did not reserve."


def _noise_implies(claims: Claims, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether the noise of the receipts implies a guarantee that the total does not.

    This holds only if the plan fixed the noise beforehand; an unknown selection is treated as if it
    had. No tolerance is needed, because the published figures were rounded up by more than the
    results of two machines differ.
    """
    # privacy: losses of events compose only where no event depended on another's result.
    tables = all(charge.stage in TABLE_STAGES for charge in claims.charges)
    # For any method, a plan that pays for anything but tables is adaptive.
    tables = tables and all(
        stage in TABLE_STAGES for stage, cost in claims.plan["costs"].items() if cost != "0"
    )
    fixed = fixed_beforehand(claims.plan) or bool(unknown_selection(claims.plan))
    if not (claims.charges and tables and fixed):
        return False
    charges = [(charge.event, charge.asks) for charge in claims.charges]
    return shown(charges, claims.relation, epsilon, delta)
