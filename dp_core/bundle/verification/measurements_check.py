"""Check of a release that uses the noisy tables of an earlier one.

The statement holds the receipts and the plan of the earlier release. `charges`, `guarantee` and
`tables` check them as they check those of any release. This check connects the two releases. With
the bundle of the earlier release it also compares both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.bundle.files.codebook import MARGINALS
from dp_core.bundle.statement.release_json import STATEMENT, currency_json
from dp_core.bundle.statement.sections import MEASUREMENTS, measurements_statement
from dp_core.bundle.verification.charges_check import mode_contradictions
from dp_core.bundle.verification.claims import Claims, read_claims
from dp_core.bundle.verification.guarantee_check import contradicted_terms
from dp_core.bundle.verification.unknown_methods import Undecided
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.receipts import first_bad_link
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.reading.measurements_reader import MEASURING


def check_measurements(
    folder: Path,
    document: Mapping[str, Any],
    claims: Claims,
    first: Path | None,
    fault: str | Undecided | None,
) -> str | tuple[str, ...] | Undecided:
    """Return whose noisy tables a release uses, or what contradicts that.

    Args:
        folder: The bundle.
        document: Its statement.
        claims: Its claims.
        first: Bundle of the earlier release; None to check without it.
        fault: What is wrong in that bundle, or cannot be decided; None if it verifies, or without
            it.
    """
    earlier = claims.earlier
    if earlier is None:
        return (
            "The release measured its tables itself, so there is no earlier bundle to compare.",
        )
    wrong = [*_not_connected(document, claims, earlier)]
    if first is None:
        return tuple(wrong) or (
            f"By the receipts stated here, release {earlier.name!r:.80} paid for the noisy tables."
            " Not compared with the bundle of that release: name its folder with --measurements."
        )
    if isinstance(fault, Undecided):
        said = f"The bundle {first} cannot be verified here: {fault.sentence}"
        return tuple(wrong) or Undecided(said)
    wrong += [f"The bundle {first} does not verify: {fault}"] if fault else []
    wrong += [] if fault else _unlike(folder, earlier, first)
    return tuple(wrong) or (
        f"Tables, charges and signatures are those of release {earlier.name!r:.80} in"
        f" {first}, which verifies."
    )


def _not_connected(document: Mapping[str, Any], claims: Claims, earlier: Claims) -> Iterator[str]:
    """Yield what contradicts that the release used the earlier one's tables and nothing else."""
    body: Mapping[str, Any] = claims.reserve.body
    name = f"release {earlier.name!r:.80}"
    if any(
        row.release != earlier.name or row.account != claims.account for row in earlier.receipts
    ):
        yield f"A receipt of {name} belongs to another release or account."
    broken = first_bad_link(earlier.receipts)
    if broken is not None:
        yield f"Of {name}: {broken}"
    if earlier.receipts[-1].hash != earlier.head or earlier.receipts[-1].kind != "settle":
        yield f"The last receipt of {name} is not the one that {STATEMENT} states."
    if body.get("measurements") != {"release": earlier.name, "head": earlier.head}:
        yield f"The reservation does not name {name} with its last receipt."
    if digest(earlier.plan) != earlier.reserve.body["plan"]:
        yield f"The plan of {name} is not the one that was reserved: its hash differs."
    used = EarlierRelease(
        earlier.name, claims.account, earlier.plan, earlier.receipts, earlier.place
    )
    made = measurements_statement(used, earlier.plan, currency_json(earlier.currency))
    if canonical_json(document[MEASUREMENTS]) != canonical_json(made):
        yield f"{STATEMENT} states '{MEASUREMENTS}' unlike the receipts and the plan of {name}."
    spec = claims.plan["spec"]
    if spec.get("measurements") != used.document():
        yield f"The plan does not name {name} with its plan and its last receipt."
    for key in ("schema", *MEASURING):
        if canonical_json(spec.get(key)) != canonical_json(earlier.plan["spec"].get(key)):
            yield f"The plan states {key!r} unlike the plan of {name}."
    yield from contradicted_terms(claims)
    promised = [body["epsilon"], body["delta"], body["currency"]["limit"]]
    promised += [body["currency"]["own_delta"], *body["costs"].values()]
    if any(exact_fraction(amount) for amount in promised) or claims.charges or claims.committed:
        yield "The release reserved or charged something, although it uses paid tables."
    if claims.settled is None or claims.settled.body["outcome"] != "finished":
        yield "No receipt says that the release was finished and settled."
    mode = spec["synthesize"]["mode"]
    if body["mode"] != mode:
        yield "The plan makes its sets in another mode than was reserved."
    charged = [(charge.stage, charge.step) for charge in earlier.charges]
    tables = [(stage, step) for stage, step in charged if stage != "checks"]
    yield from mode_contradictions(mode, claims.sets, tables)
    if not earlier.receipts_signed:
        yield f"The stated signature of the last receipt of {name} is wrong."


def _unlike(folder: Path, earlier: Claims, first: Path) -> Iterator[str]:
    """Yield how the stated earlier release differs from the one in its own bundle."""
    own = read_claims(json.loads((first / STATEMENT).read_bytes()))
    stated = (earlier.name, earlier.account, earlier.receipts, earlier.plan, earlier.head)
    if (own.name, own.account, own.receipts, own.plan, own.head) != stated:
        yield (
            f"The bundle {first} holds release {own.name!r:.80} with other receipts than"
            f" those stated for release {earlier.name!r:.80}."
        )
        return
    if own.place != earlier.place:
        yield f"The bundle {first} states another place or signature of its last receipt."
    try:
        same = pq.read_table(folder / MARGINALS).equals(pq.read_table(first / MARGINALS))
    except (OSError, pa.ArrowException):
        same = False
    if not same:
        yield f"{MARGINALS} does not hold the tables of {first / MARGINALS}."
