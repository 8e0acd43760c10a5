"""Checks of a statement against plan and receipts: sentences, copied values and guarantees.

People read the sentences and the decimals, programs read the copies. If one of them were changed
and every checksum recomputed, readers would see a guarantee that the receipts do not support.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import Any

from dp_core.accounts.guarantee import PLD, shown, theorem_of
from dp_core.accounts.requested import TABLE_STAGES, Privacy
from dp_core.bundle.published import Published
from dp_core.bundle.statement.release_json import STATEMENT, statement
from dp_core.bundle.statement.sections import decision_statement, thresholds_of
from dp_core.bundle.verification.claims import (
    Claims,
    contradicted_terms,
    currency,
    undecided_by_method,
    unknown_method,
    unknown_selection,
)
from dp_core.bundle.verification.examined import Examined
from dp_core.inference.combining_rules import ORIGINS, inference_statement
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.document import UNIT_KEYS
from dp_core.kernel.exact import exact_fraction
from dp_core.plan.fixed_plan import fixed_beforehand
from dp_core.plan.quality_checks import verdicts

_STATED: Mapping[str, frozenset[str]] = {
    "release": frozenset({"name"}),
    "guarantee": frozenset({"neighbours", *UNIT_KEYS}),
    "method": frozenset({"plan", "plan_sha256", "schema"}),
    "ledger": frozenset({"account", "receipts", "head", "place"}),
    "sets": frozenset({"persons", "best"}),
}
"""Sections that are compared key by key, and the keys of each that other checks compare."""
_ELSEWHERE = ("format", "decision", "checks", "software", "files", "signature", "sha256")
"""Other keys of a statement that are not compared here."""


def check_statement(bundle: Examined) -> str | tuple[str, ...]:
    """Return that every part of a statement follows from plan and receipts, or which do not.

    The statement is made again from plan and receipts. Only `_published` takes values from it.

    Raises:
        Undecided: if no part differs but the plan's method is unknown, because the method decides
            what the statement says about intervals.
    """
    document, claims = bundle.document, bundle.claims
    spec = claims.plan["spec"]
    made = statement(_published(document, claims), document["files"])
    made["method"]["schema_sha256"] = spec["schema"]["sha256"]
    if unknown := unknown_method(claims.plan):
        mode = spec["synthesize"]["mode"]
        possible = [inference_statement(mode, claims.sets, origin=each) for each in ORIGINS]
        made["inference"] = next(
            (each for each in possible if each == document["inference"]), possible[0]
        )
    parts: list[tuple[str, Mapping[str, Any], Mapping[str, Any], Collection[str]]] = [
        ("", document, made, (*_ELSEWHERE, *_STATED))
    ]
    parts += [(f"{name}.", document[name], made[name], known) for name, known in _STATED.items()]
    wrong = []
    for within, stated, remade, known in parts:
        wrong += [
            f"{STATEMENT} states {within + name!r:.60}, which is not part of a statement."
            for name in stated
            if name not in remade
        ]
        wrong += [
            f"{STATEMENT} states {within + name!r} unlike plan and receipts."
            for name, value in remade.items()
            if name not in known
            and ((within and name not in stated) or _differ(stated[name], value))
        ]
    wrong += [
        f"The plan in {STATEMENT} states {name!r} unlike the reservation."
        for name, planned, reserved in _plan_and_reservation(claims)
        if _differ(planned, reserved)
    ]
    if wrong:
        return tuple(wrong)
    if unknown:
        what = "what it says about intervals from the sets ('inference')"
        raise undecided_by_method(unknown, claims.program, what)
    return "Sentences, decimals and copied values agree with the plan and the receipts."


def _differ(one: object, other: object) -> bool:
    return canonical_json(one) != canonical_json(other)


def _plan_and_reservation(claims: Claims) -> Iterator[tuple[str, object, object]]:
    """Yield names of values, each with what the plan and what the reservation state.

    People read the plan too, so it must not show another epsilon or unit than was reserved.
    """
    reserved, paid, plan = claims.reserve.body, claims.payer.reserve.body, claims.plan
    protects = ("epsilon", "delta", "neighbours", *UNIT_KEYS)
    yield (
        "privacy",
        plan["spec"]["privacy"],
        {name: paid[name] for name in protects if name in paid},
    )
    yield "costs", plan["costs"], reserved["costs"]
    yield "currency", plan["currency"], reserved["currency"]
    yield "release", plan["spec"]["release"], claims.name
    yield "account", plan["spec"]["account"], claims.account


def _published(document: Mapping[str, Any], claims: Claims) -> Published:
    """Return the release as plan and receipts describe it, with what other checks compare."""
    reserved: Mapping[str, Any] = claims.reserve.body
    spec, stated = claims.plan["spec"], document["sets"]
    release, made = document["release"], spec["synthesize"]
    settled, (epsilon, delta), revises = claims.settled, claims.enforced, reserved.get("revises")
    version = release["version"]
    if revises is None or type(version) is not int or version < 2:
        version = 1 if revises is None else 2
    rows, records = claims.rows, stated["records"]["value"]
    if made["sets"] and made["rows"] == "same":
        records = round(sum(rows) / len(rows))
    else:
        # `check_figures` compares the number of records with the noisy tables.
        rows = (made["rows"],) * made["sets"]
    # `check_sets` compares weights and totals with the sets, `check_rules` the figures of rules.
    figures = ("tables", "mean_tvd_to_noisy", "mean_expected_tvd")
    ruled = {name: value for name, value in stated.get("rules", {}).items() if name in figures}
    return Published(
        release=claims.name,
        title=document["method"]["schema"]["title"],
        created=datetime.datetime.fromisoformat(
            f"{settled.at}T00:00:00Z" if settled else release["created"]
        ),
        privacy=Privacy(
            epsilon=epsilon,
            delta=delta,
            neighbours=claims.relation.neighbours,
            protects=claims.schema.unit,
        ),
        currency=claims.payer.currency,
        method=spec["method"],
        plan=claims.plan,
        schema=claims.schema,
        ledger=str(settled.body["ledger"]) if settled else document["ledger"]["id"],
        account=claims.account,
        receipts=claims.receipts,
        released=(),
        sets=made["sets"],
        rows=rows,
        mode=made["mode"],
        seed=made["seed"],
        records=records,
        records_public=claims.relation.rows_public,
        tightest=claims.tightest,
        also=claims.also,
        totals=claims.totals,
        place=claims.place,
        revises=revises,
        version=version,
        off=claims.off,
        ruled=ruled,
        software=document["software"],
        checks=document["checks"],
        measurements=claims.used,
        persons=claims.persons,
        best=claims.best,
    )


def check_decision(bundle: Examined) -> str | tuple[str, ...]:
    """Return that the release was published as plan and receipts say, or what differs."""
    document, claims, wrong = bundle.document, bundle.claims, list[str]()
    body: Mapping[str, Any] = claims.settled.body if claims.settled else {}
    mode = claims.plan["spec"].get("publish", "at-once")
    approval = body.get("decision")
    if claims.reserve.body.get("publish", "at-once") != mode:
        wrong.append("The plan states another way of publishing than was reserved.")
    if mode == "after-approval" and approval is None:
        wrong.append("The plan requires approval, but no receipt records a decision.")
    if approval is not None and approval["decided"] != "publish":
        wrong.append("The release waited for approval, but no receipt records an approval.")
    made = decision_statement(claims.plan, body, document["checks"])
    verdict = verdicts(thresholds_of(claims.plan), document["checks"])[1]
    if verdict == "fail":
        wrong.append("Its own thresholds exclude the release from publication.")
    if verdict == "hold" and approval is None:
        wrong.append("Its own thresholds require approval, but no receipt records a decision.")
    if _differ(document["decision"], made):
        wrong.append("The statement reports another decision than its receipts.")
    if wrong:
        return tuple(wrong)
    if approval is None:
        return "Published when it was finished, as the plan specifies; no approval was needed."
    looks = len(approval["looks"])
    return (
        f"Waited for approval from {approval['held']} on; approved and published after"
        f" {looks or 'no'} recorded look{'s' if looks != 1 else ''} at the internal report."
    )


def check_guarantee(claims: Claims) -> str | tuple[str, ...]:
    """Return that reservation and noise imply the stated guarantees, or which they do not.

    Args:
        claims: Claims of the statement; they are not trusted.

    Raises:
        Undecided: if a guarantee holds for a method that is not known.
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
        if claim.theorem == theorem_of(reserved) and implied:
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
        raise undecided_by_method(unknown, claims.program, what)
    return tuple(wrong) or " ".join(sentences)


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
