"""`release.json`: what was promised, what was done, and what is not covered."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import math
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from dp_core.accounts.guarantee import Guarantee
from dp_core.accounts.ledger_position import Adoption, Total, stated_adoptions
from dp_core.accounts.requested import unprotected, words_of
from dp_core.bundle.published import Published
from dp_core.bundle.statement.citation import suggested_citation
from dp_core.bundle.statement.sections import (
    MEASUREMENTS,
    analyses_statement,
    decision_statement,
    prior_statement,
    refusals_statement,
    rules_statement,
    totals_statement,
    weights_statement,
)
from dp_core.bundle.statement.spent_budget import accounting_json
from dp_core.errors import BadInput
from dp_core.inference.combining_rules import Origin, inference_statement
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.document import ProtectedUnit
from dp_core.kernel.privacy import Relation
from dp_core.methods import registry
from dp_core.methods.bin_density import fitting
from dp_core.plan import chosen_domain
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.release_spec import plain_options
from dp_core.schema.panel.panel_waves import Panel
from dp_core.text.pages.answer import known_values

FORMAT_NAME = "dp-release bundle"
FORMAT_VERSION = 9
"""Increased whenever a key, a number or a sentence of the statement changes, because `verify`
recomputes all of them and cannot compare those of another version."""
STATEMENT = "release.json"
"""Name of the statement in the bundle."""
IN_MEMORY = "in-memory.json"
"""Name of the statement of a saved release in memory, which is no bundle."""

NOT_COVERED = (
    "That this release exists. The validation of the confidential data or a person can stop a"
    " release, so its existence says that in the end neither did. The out-of-range rule clip does"
    " not avoid this: it settles only numbers and dates outside their bounds. The rule missing,"
    " with a missing level in every column, settles every value of its column's type; a text that"
    " is no number or date still stops a release. So does a row without the identifier of its"
    " person, one that breaks a rule about missing values, one that lies in another area than the"
    " schema says, or a household that breaks a rule about the number of its members who meet a"
    " condition.",
    "Refused attempts. A refusal by the validation tells whoever may see the internal files which"
    " rules and columns of the schema the confidential data break, and everyone else that they"
    " break one of them. That the data fit a schema is an exact answer too. The section `refusals`"
    " states how many attempts of the account were refused, and how many different schemas were"
    " tried. After three refusals, or ten schemas in one period, a person must allow more.",
    "Guessed files. Whoever may run commands in the home of the ledger can ask whether a file"
    " equals the confidential one, by resuming a release with it or by declaring it public for a"
    " comparison. The ledger records each such declaration before it answers. A file that resumes"
    " a release and is not the confidential one, and one that is declared public and is, count as"
    " refused attempts. That a file declared public belongs to no account is an answer that is"
    " recorded but not limited.",
    "The choice among draws. The operator is trusted not to repeat a noisy draw and keep the one"
    " they prefer, neither by deleting stored results nor by interrupting after reading one. The"
    " ledger records repeated draws; it cannot prevent them.",
    "An internal look. Staff may compare the release with the confidential data, in a folder that"
    " is not published, and then publish it or withdraw it; it is never made again with other seeds"
    " or methods. That decision is outside epsilon. The section `decision` says whether the release"
    " was held for such a decision, and on which days the ledger recorded a look.",
    "Other releases. A person who is in several releases is protected by their sum. This statement"
    " covers what the ledger and account named here paid for, and claims no more.",
    "What the schema says. Levels, bounds, bin edges, impossible combinations and a team's own"
    " expectations are taken as public knowledge; where they were read off the confidential file"
    " they are not protected. The file met each expectation that a release states: one of a mean or"
    " of a number of rows is an exact aggregate of the file, which the publisher states.",
    "How the file was written. Epsilon compares files as they were read. The program that wrote the"
    " file may have changed one person's values because of the values of others: some programs"
    " exchange day and month in a whole column unless one of its values rules that out.",
    "What the population has in common. Conclusions about a group, drawn from this release, can be"
    " true of a member of the group whether or not that person's row was in the file.",
)


_OF_HOUSEHOLDS = {
    "a row without the identifier of its person": "a row without a key",
    "A person who is in several releases is protected": (
        "A household, or a member of it, that is in several releases is protected"
    ),
    "whether or not that person's row was in the file": (
        "whether or not that person's household was in the file"
    ),
}
"""What sentences of `NOT_COVERED` say instead if households are protected."""


def not_covered(unit: str) -> list[str]:
    """Return what the guarantee does not cover, in the words of the unit of privacy."""
    texts = list(NOT_COVERED)
    for said, instead in _OF_HOUSEHOLDS.items() if unit == "household" else ():
        texts = [text.replace(said, instead) for text in texts]
    return texts


Sign: TypeAlias = Callable[[bytes], tuple[str, str] | None]
"""Returns the public key and the signature of a message, in hex; None if nothing is signed."""


def statement(
    published: Published,
    files: Mapping[str, Mapping[str, object]],
    sign: Sign = lambda _: None,
) -> dict[str, Any]:
    """Return the content of `release.json`.

    Args:
        published: The release.
        files: `file_record` of every other file, by its path in the bundle with forward slashes.
        sign: Signs a message with the ledger's key; by default nothing is signed.
    """
    privacy, plan = published.privacy, dict(published.plan)
    written = dict(published.schema.document)
    settled = published.receipts[-1].body if published.receipts else None
    adoptions = stated_adoptions(settled) if settled else ()
    adopted = [{**one.to_json(), "in_words": adopted_in_words(one)} for one in adoptions]
    document: dict[str, Any] = {
        "format": {"name": FORMAT_NAME, "version": FORMAT_VERSION},
        "release": {
            "name": published.release,
            "title": published.title,
            "created": published.moment,
            "revises": published.revises,
            "version": published.version,
        },
        "guarantee": {
            "neighbours": privacy.neighbours,
            **privacy.protects.stated,
            **_unit_json(privacy.relation, privacy.protects, published.schema.panel),
            "enforced": guarantee_json(published.enforced),
            "tightest": guarantee_json(published.guarantee),
            "also": published.also and guarantee_json(published.also),
            "in_words": in_words(
                published.guarantee, privacy.neighbours, words_of(privacy.protects)
            ),
            "over_all_releases": [
                *(over_all(total) for total in published.totals),
                *(each["in_words"] for each in adopted),
            ],
            "not_covered": not_covered(privacy.protects.word),
        },
        "method": {
            "name": published.method,
            "plan": plan,
            "plan_sha256": digest(plan),
            "schema": written,
            "schema_sha256": digest(written),
            **known_values(
                domain=chosen_domain.statement(published.schema) or None,
                densities=fitting.statement(published.schema) or None,
                analyses=analyses_statement(published.plan),
                prior=prior_statement(published.plan),
            ),
        },
        "accounting": accounting_json(published.currency, privacy.relation, published.paid),
        "software": dict(sorted((published.software or software_versions()).items())),
        "ledger": {
            "id": published.ledger,
            "account": published.account,
            "currency": currency_json(published.reserved),
            "receipts": [receipt.to_json() for receipt in published.receipts],
            "head": published.head,
            "place": published.place and dataclasses.asdict(published.place),
            "totals": [total_json(total) for total in published.totals],
            **known_values(adopted=adopted or None),
        },
        "sets": {
            "m": published.sets,
            "rows": list(published.set_rows),
            **({"persons": list(published.persons)} if published.schema.linked else {}),
            **known_values(best=published.best and published.best.to_json()),
            "mode": published.mode,
            "seed": published.seed,
            "records": {
                "value": round(published.records, 3),
                "how": "public" if published.records_public else "estimated from noisy tables",
            },
            **known_values(
                weights=weights_statement(published.schema, published.off),
                totals=totals_statement(published.schema) if published.sets else None,
                rules=rules_statement(
                    published.schema, published.ruled if published.sets else None
                ),
            ),
        },
        "inference": inference_statement(
            published.mode, published.sets, origin=origin_of(published.plan)
        ),
        "decision": decision_statement(
            plan,
            settled,
            published.checks,
        ),
        "refusals": refusals_statement(settled),
        "checks": dict(published.checks),
        "files": {path: dict(files[path]) for path in sorted(files)},
    }
    if published.measurements is not None:
        document[MEASUREMENTS] = _measurements_json(published.measurements)
    document["release"]["cite_as"] = suggested_citation(document)
    signed = sign(statement_message(document))
    document["signature"] = signed and {"public_key": signed[0], "signature": signed[1]}
    document["sha256"] = digest(document)
    return document


def origin_of(plan: Mapping[str, Any]) -> Origin:
    """Return the origin of the records of a plan's sets, which follows from its method."""
    spec = plan["spec"]
    name = spec["synthesize"].get("method")
    try:
        if name is not None:
            if registry.find("parametric", name).draws:
                return "drawn"
            # Negative noisy counts are set to 0, so the mean of every empty cell is positive.
            return "pulled" if spec["synthesize"].get("published") else "modelled"
        # Whether a selection gives tables, cells or records depends on no option.
        selector = registry.find("selection", spec["select"]["method"])()
        pulls = _pulls(spec["reconstruct"])
    except BadInput:
        return "unknown"
    if "records" in selector.gives:
        one = Domain(("any",), (2,))
        return "drawn" if selector.draws(one, Relation("add-remove")) else "chosen"
    if "sparse" in selector.gives:
        return "cut"
    return "pulled" if pulls else "modelled"


def _pulls(options: Mapping[str, Any]) -> bool:
    """Whether the options of a reconstruction pull its model towards a uniform table."""
    method = registry.find("reconstruction", options["method"])
    unpulled = getattr(method, "unpulled", None)
    if not unpulled:
        return False
    without = plain_options(method(**unpulled))
    return any(options.get(name) != without[name] for name in unpulled)


def exact(value: Fraction) -> dict[str, object]:
    """Return a fraction as its exact text and its nearest decimal.

    >>> exact(Fraction(1, 4))
    {'exact': '1/4', 'decimal': 0.25}
    """
    return {"exact": str(value), "decimal": float(value)}


def statement_message(document: Mapping[str, Any]) -> bytes:
    """Return the message that is signed: the whole statement, including the hash of every file."""
    body = {name: document[name] for name in document if name not in ("signature", "sha256")}
    version = document["format"]["version"]
    return canonical_json(["dp-release statement", version, digest(body)])


def render(document: Mapping[str, object]) -> bytes:
    """Return a document as JSON in UTF-8, indented by two spaces, with a final newline."""
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    return f"{text}\n".encode()


def file_record(path: Path) -> dict[str, object]:
    """Return SHA-256 and size of a file.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": found, "bytes": path.stat().st_size}


def in_words(guarantee: Guarantee, neighbours: str, unit: str) -> str:
    """Return the guarantee as a sentence; `unit` is who is protected."""
    differ = f"{unit} added or removed" if neighbours == "add-remove" else f"{unit} replaced"
    epsilon = float(guarantee.epsilon)
    factor = f"{math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:.4g}"
    sentence = (
        f"For any two files that differ by {differ}, whatever is concluded from this release is at"
        f" most {factor} times (e to the power {epsilon:.6g}) as likely from one as from the other"
    )
    if guarantee.delta:
        sentence += f", apart from a probability of {float(guarantee.delta):.3g}"
    return f"{sentence}. {unprotected(guarantee.epsilon, guarantee.delta)}".rstrip()


def software_versions() -> dict[str, str]:
    """Return the versions on which the release depends."""
    versions = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name, distribution in (
        ("dp_release", "dp-release"),
        ("numpy", "numpy"),
        ("pyarrow", "pyarrow"),
    ):
        try:
            versions[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def over_all(total: Total) -> str:
    """Return the guarantee for a person who is in several releases, as a sentence."""
    sentence = (
        f"Whoever is in several releases of account {total.account} is protected by their sum:"
        f" epsilon at most {float(total.epsilon):.6g}, delta at most {float(total.delta):.3g}"
    )
    raised = [day.isoformat() for day, kind, *_ in total.changed if kind == "raise"]
    if raised:
        sentence += f", a total that was raised on {', '.join(raised)} and may be raised again"
    sentence += "."
    restated = [
        f"{day.isoformat()} (from then on by {composition} composition)"
        for day, kind, composition, *_ in total.changed
        if kind == "restate"
    ]
    if restated:
        sentence += (
            f" How they add up was restated for all of them on {', '.join(restated)}; whoever did"
            " so is trusted not to have decided it by looking at what was released."
        )
    return sentence


def adopted_in_words(adoption: Adoption) -> str:
    """Return a sentence about an adoption of the ledger, for people."""
    sentence = (
        f"On {adoption.day.isoformat()} a person accepted a restored or copied database as this"
        " ledger."
    )
    match adoption.behind:
        case None:
            return f"{sentence} How many of its entries were missing is unknown."
        case 0:
            return f"{sentence} No entry was known to be missing."
        case count:
            entries = "1 entry was" if count == 1 else f"{count} entries were"
            return f"{sentence} {entries} missing, and the totals do not count what they recorded."


def total_json(total: Total) -> dict[str, object]:
    """Return an account's total as the statement has it."""
    return {
        "account": total.account,
        "composition": total.composition,
        "epsilon": exact(total.epsilon),
        "delta": exact(total.delta),
        "own_delta": exact(total.own_delta),
        "opened": total.opened.isoformat(),
        "changed": [
            {
                "day": day.isoformat(),
                "what": kind,
                "composition": composition,
                "epsilon": exact(epsilon),
                "delta": exact(delta),
            }
            for day, kind, composition, epsilon, delta in total.changed
        ],
    }


def _unit_json(
    relation: Relation, protects: ProtectedUnit, panel: Panel | None
) -> dict[str, object]:
    """Return what the section `guarantee` says about persons of a panel or households as units."""
    if panel is not None:
        words = (
            "One person is protected with all their rows in the waves"
            f" {', '.join(panel.waves)}: whether they are in any of them, and everything that the"
            " rows say about them. A record is a person with all waves, so each person counts 1 in"
            " every table, within a wave and across waves."
        )
        return {"unit_in_words": words}
    if protects.word != "household":
        return {}
    return {
        "shares": relation.shares,
        "unit_in_words": (
            f"One household is protected with all its members, at most {protects.most}: whether it"
            " is in the file, and everything that the file says about any of them. Every household"
            f" has {relation.shares:,} equal shares, which are divided equally among its members,"
            " or among its ordered pairs of members, so that each household counts 1 in every"
            " table."
        ),
    }


def _measurements_json(earlier: EarlierRelease) -> dict[str, Any]:
    """Return the section about the release that measured."""
    release, privacy, plan = earlier.release, earlier.spec["privacy"], dict(earlier.plan)
    return {
        "release": release,
        "in_words": (
            f"The noisy tables are those of release {release}, which paid for them: epsilon"
            f" {privacy['epsilon']}, delta {privacy['delta']}. This release charged nothing and did"
            " not open the confidential file, so both together have the guarantee of release"
            f" {release}. Whoever chose the method and seed of this release may have seen the"
            f" internal comparison of release {release} with the file; such a choice is outside"
            " epsilon."
        ),
        "plan": plan,
        "plan_sha256": digest(plan),
        "currency": currency_json(earlier.currency),
        "receipts": [receipt.to_json() for receipt in earlier.receipts],
        "head": earlier.used.head,
        "place": earlier.place and dataclasses.asdict(earlier.place),
    }


def currency_json(currency: Currency) -> dict[str, object]:
    """Return a currency and the reserved total as the statement has them."""
    return {
        "kind": currency.kind,
        "limit": exact(currency.limit),
        "own_delta": exact(currency.own_delta),
    }


def guarantee_json(guarantee: Guarantee) -> dict[str, object]:
    """Return a guarantee as the statement has it."""
    return {
        "epsilon": exact(guarantee.epsilon),
        "delta": exact(guarantee.delta),
        "theorem": guarantee.theorem,
    }
