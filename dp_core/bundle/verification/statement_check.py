"""Checks of a statement against plan and receipts: sentences, copied values and guarantees.

People read the sentences and the decimals, programs read the copies. If one of them were changed
and every checksum recomputed, readers would see a guarantee that the receipts do not support.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from dp_core.accounts.guarantee import PLD, Guarantee, shown, theorem_of
from dp_core.accounts.requested import TABLE_STAGES
from dp_core.bundle.statement.citation import suggested_citation
from dp_core.bundle.statement.release_json import (
    STATEMENT,
    adopted_json,
    currency_json,
    guaranteed_json,
    origin_of,
    total_json,
)
from dp_core.bundle.statement.sections import (
    MEASUREMENTS,
    decision_statement,
    method_statement,
    refusals_statement,
    sets_statement,
    thresholds_of,
)
from dp_core.bundle.statement.spent_budget import accounting_json
from dp_core.bundle.verification.claims import (
    Claims,
    Undecided,
    contradicted_terms,
    currency,
    undecided_by_method,
    unknown_method,
    unknown_selection,
)
from dp_core.inference.combining_rules import ORIGINS, inference_statement
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.document import UNIT_KEYS
from dp_core.kernel.exact import exact_fraction
from dp_core.plan.fixed_plan import fixed_beforehand
from dp_core.plan.quality_checks import verdicts

_STATED: Mapping[str, frozenset[str]] = {
    "release": frozenset({"name", "created", "version"}),
    "guarantee": frozenset({"neighbours", *UNIT_KEYS}),
    "method": frozenset({"plan", "plan_sha256", "schema"}),
    "ledger": frozenset({"id", "account", "receipts", "head", "place"}),
    "sets": frozenset({"rows", "persons", "best"}),
}
"""Keys of each section that `_remade` does not always yield; other checks compare them."""
_WHOLE = frozenset(
    {
        *(*_STATED, "accounting", "checks", "format", "inference", "decision", "refusals"),
        *("software", "files", "signature", "sha256"),
    }
)


def check_statement(
    document: Mapping[str, Any], claims: Claims
) -> str | tuple[str, ...] | Undecided:
    """Return that every part of a statement follows from plan and receipts, or which do not.

    Args:
        document: The statement.
        claims: Its claims.

    Returns:
        `Undecided` if no part differs but the plan's method is unknown, because the method decides
        what the statement says about intervals.
    """
    wrong = [
        f"{STATEMENT} states {name!r:.40}, which is not part of a statement."
        for name in sorted(set(document) - _WHOLE - ({MEASUREMENTS} if claims.earlier else set()))
    ]
    mode, origin = claims.plan["spec"]["synthesize"]["mode"], origin_of(claims.plan)
    possible = ORIGINS if origin == "unknown" else (origin,)
    payer, settled = claims.payer, claims.settled.body if claims.settled else None
    sections = {
        "inference": [inference_statement(mode, claims.sets, origin=each) for each in possible],
        "accounting": [accounting_json(payer.currency, claims.relation, payer.receipts)],
        "refusals": [refusals_statement(settled)],
    }
    wrong += [
        f"{STATEMENT} states {name!r} unlike plan and receipts."
        for name, made in sections.items()
        if canonical_json(document[name]) not in map(canonical_json, made)
    ]
    remade = dict(_remade(document, claims))
    wrong += [
        f"{STATEMENT} states '{section}.{name:.40}', which is not part of a statement."
        for section, names in _STATED.items()
        for name in sorted(set(document[section]) - names)
        if (section, name) not in remade
    ]
    for (section, name), made in remade.items():
        stated = document[section]
        if name not in stated or canonical_json(stated[name]) != canonical_json(made):
            wrong.append(f"{STATEMENT} states '{section}.{name}' unlike plan and receipts.")
    wrong += [
        f"The plan in {STATEMENT} states {name!r} unlike the reservation."
        for name, planned, reserved in _plan_and_reservation(claims)
        if canonical_json(planned) != canonical_json(reserved)
    ]
    if wrong:
        return tuple(wrong)
    if origin == "unknown":
        name = unknown_method(claims.plan)
        what = "what it says about intervals from the sets ('inference')"
        return undecided_by_method(name, claims.program, what)
    return "Sentences, decimals and copied values agree with the plan and the receipts."


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


def _remade(
    document: Mapping[str, Any], claims: Claims
) -> Iterator[tuple[tuple[str, str], object]]:
    """Yield keys of a statement with the values that plan and receipts imply."""
    reserved, settled, spec = claims.reserve.body, claims.settled, claims.plan["spec"]
    synthesize = spec["synthesize"]
    if settled is not None:
        yield ("release", "created"), f"{settled.at}T00:00:00Z"
        yield ("ledger", "id"), settled.body["ledger"]
    yield ("release", "title"), document["method"]["schema"]["title"]
    yield ("release", "revises"), reserved.get("revises")
    version = document["release"]["version"]
    if reserved.get("revises") is None or type(version) is not int or version < 2:
        yield ("release", "version"), 1 if reserved.get("revises") is None else 2
    yield ("release", "cite_as"), suggested_citation(document)

    epsilon, delta = claims.enforced
    enforced = Guarantee(epsilon=epsilon, delta=delta, theorem=theorem_of(claims.payer.currency))
    guarantees = enforced, claims.tightest, claims.also
    for name, value in guaranteed_json(
        claims.relation,
        claims.schema.unit,
        guarantees,
        claims.totals,
        claims.adoptions,
        claims.schema.panel,
    ).items():
        yield ("guarantee", name), value

    yield ("method", "name"), spec["method"]
    yield ("method", "schema_sha256"), spec["schema"]["sha256"]
    for name, value in method_statement(claims.plan, claims.schema).items():
        yield ("method", name), value

    yield ("ledger", "currency"), currency_json(claims.currency)
    yield ("ledger", "totals"), [total_json(total) for total in claims.totals]
    for name, value in adopted_json(claims.adoptions).items():
        yield ("ledger", name), value

    yield ("sets", "m"), synthesize["sets"]
    yield ("sets", "mode"), synthesize["mode"]
    yield ("sets", "seed"), synthesize["seed"]
    records: dict[str, object] = dict(document["sets"]["records"])
    public = claims.relation.rows_public
    records["how"] = "public" if public else "estimated from noisy tables"
    if not claims.sets:
        # `check_figures` compares the number with the noisy tables.
        yield ("sets", "rows"), []
    elif synthesize["rows"] == "same":
        records["value"] = round(sum(claims.rows) / len(claims.rows))
    else:
        yield ("sets", "rows"), [synthesize["rows"]] * claims.sets
    yield ("sets", "records"), records
    # `check_sets` compares weights and totals with the sets, `check_rules` the figures of rules.
    stated = document["sets"]
    off = stated["weights"]["largest_deviation"] if claims.schema.weight is not None else ()
    names = ("tables", "mean_tvd_to_noisy", "mean_expected_tvd")
    figures = {name: value for name, value in stated.get("rules", {}).items() if name in names}
    for name, value in sets_statement(claims.schema, claims.sets, off, figures).items():
        yield ("sets", name), value


def check_decision(document: Mapping[str, Any], claims: Claims) -> str | tuple[str, ...]:
    """Return that the release was published as plan and receipts say, or what differs.

    Args:
        document: The statement.
        claims: Its claims.
    """
    wrong: list[str] = []
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
    if canonical_json(document["decision"]) != canonical_json(made):
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
        return undecided_by_method(unknown, claims.program, what)
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
