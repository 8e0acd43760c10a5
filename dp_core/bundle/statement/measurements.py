"""The statement's section `measurements`: whose noisy tables a release uses, and what they cost.

Only a release that uses the tables of an earlier one has it. The section holds the receipts and the
plan of the earlier release, so the guarantee can be recomputed from the bundle alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dp_core.plan.earlier_release import EarlierRelease
from dp_core.text.canonical import digest

MEASUREMENTS = "measurements"
"""Name of the section."""


def measurements_statement(
    earlier: EarlierRelease, plan: Mapping[str, Any], currency: Mapping[str, object]
) -> dict[str, Any]:
    """Return the section.

    Args:
        earlier: The release that measured.
        plan: Its plan as plain JSON values.
        currency: `currency_json` of its currency.
    """
    return {
        "release": earlier.release,
        "in_words": in_words(earlier.release, plan),
        "plan": plan,
        "plan_sha256": digest(plan),
        "currency": currency,
        "receipts": [receipt.to_json() for receipt in earlier.receipts],
        "head": earlier.used.head,
        "place": earlier.place and dataclasses.asdict(earlier.place),
    }


def in_words(release: str, plan: Mapping[str, Any]) -> str:
    """Return whose noisy tables are used and what they cost, for people.

    Args:
        release: Name of the release that measured.
        plan: Its plan.
    """
    privacy = plan["spec"]["privacy"]
    return (
        f"The noisy tables are those of release {release}, which paid for them: epsilon"
        f" {privacy['epsilon']}, delta {privacy['delta']}. This release charged nothing and did not"
        f" open the confidential file, so both together have the guarantee of release {release}."
        " Whoever chose the method and seed of this release may have seen the internal comparison"
        f" of release {release} with the file; such a choice is outside epsilon."
    )


def paid_currency(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the currency, with its total, in which the noisy tables of a statement were paid."""
    found: Mapping[str, Any] = document.get(MEASUREMENTS, document["ledger"])["currency"]
    return found
