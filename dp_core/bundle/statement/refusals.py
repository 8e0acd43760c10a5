"""The statement's `refusals`: the refused and open attempts of the account and of its family.

It follows from the settlement alone, so anyone can recompute it. Names and reasons stay in the
ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
        "in_words": _in_words(refused, unsettled, fitted, allowed),
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


def _in_words(refused: object, unsettled: object, fitted: object, allowed: list[str]) -> str:
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
