"""Sections and keys of the statement that follow from plan, schema and settlement alone.

`release_json` puts them together, for `release.json` and for `verify`, which makes it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.inference.formulas.declared_statistic import is_statistic
from dp_core.kernel.document import ProtectedUnit
from dp_core.methods.replicates.survey_weights import in_words as total_in_words
from dp_core.plan.quality_checks import Threshold, verdicts
from dp_core.schema.definition import Schema

MEASUREMENTS = "measurements"
"""Name of the section about the earlier release whose noisy tables are used."""
TOLERANCE = 1e-9
"""Relative deviation from a public total up to which the weights meet it."""


def weights_statement(schema: Schema, off: Sequence[float]) -> dict[str, object] | None:
    """Return what the statement says about survey weights; None if the file has none.

    Args:
        schema: Schema of the release.
        off: Largest relative deviation of each set from a public total.
    """
    weight = schema.weight
    if weight is None:
        return None
    return {
        "column": weight.name,
        "calibrated_to": [total_in_words(margin) for margin in schema.calibration],
        # Rounded up to two digits; 0 if every total is met.
        "largest_deviation": [0 if one <= TOLERANCE else _up(one) for one in off],
    }


def _up(value: float) -> float:
    """Return a positive number rounded up to two digits.

    >>> _up(0.012301), _up(1.0)
    (0.013, 1.0)
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")


def rules_statement(schema: Schema, found: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return what a statement says about rules between columns; None if there are none.

    Args:
        schema: The schema of the release.
        found: Result of `table_fit.ruled_tables`.
    """
    if found is None or not (schema.rules or schema.member_rules):
        return None
    counting = [rule.text for rule in schema.member_rules]
    return {
        "hold_in_every_row": [rule.text for rule in schema.rules],
        **({"hold_in_every_household": counting} if counting else {}),
        **found,
    }


def totals_statement(schema: Schema) -> dict[str, object] | None:
    """Return what the statement says about public totals that all sets meet; None without any."""
    if not schema.totals:
        return None
    what = "rows" if schema.linked is None else "households"
    return {
        "in_words": (
            f"Every set has exactly these numbers of {what}. The schema states them, with their"
            " public sources, so they cost no privacy budget. They were not compared with the"
            " file, and nothing here says that the file agrees with them."
        ),
        "columns": [
            {
                "column": each.column,
                "source": each.source,
                "counts": [
                    {"level": label, "count": count}
                    for label, count in zip(
                        schema.column(each.column).code_labels(), each.counts, strict=True
                    )
                ],
            }
            for each in schema.totals
        ],
    }


def declared_formulas(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a plan's declared analyses, in their order; empty without any.

    They are formulas of regressions, and sentences such as `mean of income by sex`.
    """
    declared = plan["spec"].get("analyses", {})
    formulas: Sequence[str] = declared.get("formulas", ())
    return tuple(map(str, formulas))


def analyses_statement(plan: Mapping[str, Any]) -> dict[str, object] | None:
    """Return what `method.analyses` says; None if the plan declares no analysis.

    Args:
        plan: `Plan.document()`, as Python values or as read from JSON.
    """
    texts = declared_formulas(plan)
    if not texts:
        return None
    words = []
    if formulas := [text for text in texts if not is_statistic(text)]:
        words.append(_of_regressions(formulas))
    if statistics := [text for text in texts if is_statistic(text)]:
        words.append(_of_statistics(statistics))
    return {"formulas": list(texts), "in_words": " ".join(words)}


def _of_statistics(sentences: Sequence[str]) -> str:
    each = "it" if len(sentences) == 1 else "each of them"
    return (
        "The following statistics were measured directly, from the numbers' own values instead of"
        f" bins: {'; '.join(sentences)}. Values in sums were clipped to limits that were chosen"
        f" from noisy counts. dp-release query answers {each} from these noisy sums and counts."
    )


def _of_regressions(formulas: Sequence[str]) -> str:
    these, each = "this regression", "it"
    if len(formulas) > 1:
        these, each = "these regressions", "each of them"
    return (
        f"The sums of {these} were measured directly, with the columns' own values instead of"
        f" bins: {'; '.join(formulas)}. dp-release infer answers {each} from these noisy sums,"
        " with intervals that include the noise."
    )


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


def stated_unit(statement: Mapping[str, Any]) -> ProtectedUnit:
    """Return who is protected, as a statement says."""
    guarantee, panel = statement["guarantee"], statement["method"]["schema"].get("panel")
    return ProtectedUnit(
        guarantee["unit"],
        guarantee.get("identified_by", ""),
        guarantee.get("max_members") or guarantee.get("max_rows", 1),
        waves=(panel["waves"][0], panel["waves"][-1]) if panel else (),
    )


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


def decision_statement(
    plan: Mapping[str, Any], settled: Mapping[str, Any] | None, checks: Mapping[str, Any]
) -> dict[str, object]:
    """Return the section `decision` of a statement.

    Args:
        plan: The plan's document.
        settled: Body of the settlement's receipt; None without a settlement.
        checks: The statement's public and charged figures.
    """
    approval: Mapping[str, Any] = (settled or {}).get("decision") or {}
    return {
        "mode": plan["spec"].get("publish", "at-once"),
        "held": approval.get("held"),
        "cause": approval.get("cause"),
        "looks": list(approval.get("looks", ())),
        "thresholds": verdicts(thresholds_of(plan), checks)[0],
        "outcome": "published",
    }


def thresholds_of(plan: Mapping[str, Any]) -> list[Threshold]:
    """Return the thresholds of a plan."""
    return [
        Threshold.from_json(each) for each in plan["spec"].get("checks", {}).get("thresholds", ())
    ]


def refusals_statement(settled: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the section `refusals` of a statement.

    Args:
        settled: Body of the settlement's receipt; None without a settlement.

    Returns:
        The numbers of refused, open and fitted attempts of the account until the settlement, the
        days on which a person allowed further attempts, and a sentence. A number is None if the
        ledger did not count such attempts yet. `tried_schemas` is the number of different schemas
        that the family has tried since its topmost account was opened. If other accounts belong to
        its family, `family` has the three numbers of all of them together.
    """
    counted: Mapping[str, Any] = (settled or {}).get("attempts") or {}
    refused, unsettled = counted.get("refused"), counted.get("open")
    fitted, allowed = counted.get("fitted"), list(counted.get("allowed", ()))
    whole = counted.get("family")
    found: dict[str, object] = {
        "refused_attempts": refused,
        "open_attempts": unsettled,
        "fitted_attempts": fitted,
        "allowed_retries": allowed,
        "in_words": _refusals_in_words(refused, unsettled, fitted, allowed),
    }
    if "schemas" in counted:  # earlier versions did not count them
        found["tried_schemas"] = counted["schemas"]
        found["in_words"] = (
            f"{found['in_words']} Different schemas that the account's family has tried on"
            f" its data: {found['tried_schemas']}."
        )
    if whole is not None:
        numbers = {f"{name}_attempts": whole.get(name) for name in ("refused", "open", "fitted")}
        found["family"] = numbers
        found["in_words"] = (
            f"{found['in_words']} In all accounts of its family, which may use the same data:"
            f" {whole.get('refused')} refused, {whole.get('open')} open and {whole.get('fitted')}"
            " that found that the data fit."
        )
    return found


def _refusals_in_words(
    refused: object, unsettled: object, fitted: object, allowed: list[str]
) -> str:
    if refused is None:
        return "The ledger did not count refused attempts when this release was settled."
    sentence = (
        "Attempts of the account, until this release was settled, that the confidential data"
        " refused, whose release ended before its first charge, or that declared the account's data"
        f" public: {refused}. Open attempts, whose releases have no charge yet: {unsettled}."
    )
    if fitted is not None:
        sentence += f" Attempts that found that the data fit their schema: {fitted}."
    if allowed:
        sentence += f" A person allowed further attempts on {', '.join(allowed)}."
    return sentence


def paid_currency(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the currency, with its total, in which the noisy tables of a statement were paid."""
    found: Mapping[str, Any] = document.get(MEASUREMENTS, document["ledger"])["currency"]
    return found
