"""Checks of the charges: they cover their events, and each noisy table has a charge.

A charge must cover the cost of its event, the event must be calibrated to the effect of one record
on the query, and every noisy table must be what one charge paid for.

The statement of a release that uses the noisy tables of an earlier one holds the receipts and the
plan of the earlier one. `check_measurements` connects the two releases. With the bundle of the
earlier release it also compares both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.accounts.chain_audit import first_bad_link
from dp_core.accounts.plain_entries import result_hash
from dp_core.bundle.files.codebook import MARGINALS
from dp_core.bundle.files.marginals_file import Measured
from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.bundle.verification.claims import (
    Charge,
    Claims,
    Undecided,
    contradicted_terms,
    read_claims,
)
from dp_core.client.household_values import scale_in_households, stored_shares
from dp_core.client.released import Answers, SparseTable, Totals
from dp_core.errors import BadInput
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.kernel.counting.sparse_cells import sparse_result
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.extensions import SPARSE_TABLE
from dp_core.kernel.extensions.thresholds import StabilityEvent, ThresholdTable
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.grant import TABLE
from dp_core.kernel.questions.calibration import calibrated
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.vetted import SUMS
from dp_core.kernel.step_names import interaction_step, step_name, table_step
from dp_core.plan.reading.measurements_reader import MEASURING

_SET = re.compile(r"set ([1-9][0-9]{0,5}): ")


def check_charges(claims: Claims) -> str | tuple[str, ...]:
    """Return that charges cover their events and stay within the reservation, or which do not."""
    wrong: list[str] = []
    costs = {
        stage: exact_fraction(cost)
        for stage, cost in cast("Mapping[str, object]", claims.reserve.body["costs"]).items()
    }
    spent: dict[str, Fraction] = dict.fromkeys(costs, Fraction(0))
    left = claims.currency.limit
    domain_of = cache(claims.domain_of)
    for charge in claims.charges:
        left -= charge.cost
        spent[charge.stage] = spent.get(charge.stage, Fraction(0)) + charge.cost
        try:
            cost = claims.currency.cost(charge.event)
        except ValueError:
            wrong.append(
                f"Receipt {charge.number} is for an event that has no cost in this currency."
            )
            continue
        if cost <= 0 or cost > charge.cost:
            wrong.append(f"Receipt {charge.number} charges less than its event costs.")
        # privacy: on the Gaussian curve a choice is private only with what is left after it.
        if not claims.currency.allows(charge.event, left):
            wrong.append(f"Receipt {charge.number} leaves too little of what was reserved.")
        domain = domain_of(charge.stage)
        enough = calibrated(charge.asks, charge.event, claims.relation, domain)
        # privacy: the sensitivity of a score decreases with the number of rows that it states.
        if enough and charge.asks.get("rows", claims.records) != claims.records:
            enough = None
        if enough is None:
            wrong.append(
                f"Receipt {charge.number} is for a question whose sensitivity this program does not"
                " know."
            )
        elif not enough:
            wrong.append(
                f"Receipt {charge.number} assumes a smaller effect of one {claims.unit['unit']}"
                " than neighbouring files can have."
            )
    for stage, total in spent.items():
        if total > costs.get(stage, Fraction(0)):
            wrong.append(f"Stage {stage!r:.40} charged more than was reserved for it.")
    if sum(spent.values()) > claims.currency.limit or sum(costs.values()) > claims.currency.limit:
        wrong.append("The charges add up to more than was reserved.")
    # privacy: failure probabilities of thresholds are part of no cost and add up separately.
    own_delta = sum((charge.event.own_delta() for charge in claims.charges), Fraction(0))
    if own_delta > claims.currency.own_delta:
        wrong.append("The thresholds fail with a larger probability than was reserved for them.")
    if claims.settled and exact_fraction(claims.settled.body["spent"]) != sum(spent.values()):
        wrong.append("The settlement states another sum than was charged.")
    wrong += _end_and_mode_faults(claims, claims.charges)
    if not claims.charges:
        wrong.append("Nothing was charged, so nothing can have been measured.")
    return tuple(wrong) or (
        f"{len(claims.charges)} charges cover their events and stay within the reservation."
    )


def _end_and_mode_faults(claims: Claims, charges: Sequence[Charge]) -> Iterator[str]:
    """Yield what contradicts that a release was finished, and made its sets as was reserved."""
    # Without the settlement, receipts at the end of the chain could have been left out.
    if claims.settled is None or claims.settled.body["outcome"] != "finished":
        yield "No receipt says that the release was finished and settled."
    mode = claims.plan["spec"]["synthesize"]["mode"]
    # If sets that share a measurement were called independent, intervals would be too narrow.
    if claims.reserve.body["mode"] != mode:
        yield "The plan makes its sets in another mode than was reserved."
    charged = [(charge.stage, charge.step) for charge in charges]
    # Checks are made after the sets are finished and are about all of them.
    measured = [(stage, step) for stage, step in charged if stage != "checks"]
    yield from mode_contradictions(mode, claims.sets, measured)


def mode_contradictions(mode: str, sets: int, charged: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each contradiction between the charges and the mode of the sets.

    Args:
        mode: Mode of the plan.
        sets: Number of sets.
        charged: Stage and name of every step that was charged.
    """
    wrong: list[str] = []
    paid: dict[int, set[str]] = {}
    for stage, step in charged:
        paid.setdefault(set_of(step), set()).add(stage)
    if mode != "split":
        own = sorted(number for number in paid if number)
        if own:
            wrong.append(f"Set {own[0]} has measurements of its own, but {mode} sets have none.")
        return wrong
    # One choice of tables, bins and levels may serve all sets; every other measurement is for one
    # set.
    if paid.pop(0, set()) - {"domain", "select"}:
        wrong.append("A measurement serves all sets, but split sets share none.")
    measured = {number: stages - {"select"} for number, stages in paid.items()}
    if not any(measured.values()):
        measured = paid  # records that are choices
    every = set().union(*measured.values())
    without = (number for number in range(1, sets + 1) if measured.get(number, set()) != every)
    missing = next(without, None) if every else 1
    if missing is not None:
        wrong.append(f"Set {missing} lacks measurements of its own, which every split set needs.")
    if max(measured, default=0) > sets:
        wrong.append(f"Set {max(measured)} was measured but does not exist.")
    return wrong


def _has_noise_of(event: Event, item: Measured, shares: int) -> bool:
    """Whether a measurement states the noise of an event, in units of households or records."""
    if not isinstance(event, LaplaceEvent | StabilityEvent | GaussianEvent):
        return False
    if item.noise != ("gaussian" if isinstance(event, GaussianEvent) else "laplace"):
        return False
    if shares == 1:
        return event.scale == Fraction(item.scale)
    return scale_in_households(event.scale, shares) == item.scale


def check_tables(measured: Sequence[Measured], claims: Claims) -> str | tuple[str, ...]:
    """Return that each noisy table is what its own charge paid for, or which are not."""
    shares = claims.relation.shares
    wrong = not_as_paid(measured, claims.charges, claims.committed, claims.sets, shares)
    return tuple(wrong) or f"{len(measured)} noisy tables, each paid for by its own receipt."


def not_as_paid(
    measured: Sequence[Measured],
    paid: Sequence[Charge],
    committed: Mapping[str, str],
    sets: int,
    shares: int,
) -> list[str]:
    """Return a sentence for each noisy table that is not what a charge of a release paid for.

    Args:
        measured: All noisy tables.
        paid: All charges of the release.
        committed: Hash of the committed result of each batch.
        sets: Number of its synthetic sets.
        shares: Shares of a unit: noise was drawn on whole numbers of them; 1 for a single table.
    """
    wrong: list[str] = []
    charges = {charge.number: charge for charge in paid}
    used: set[int] = set()
    for number, item in enumerate(measured, start=1):
        name = _name(item, number)
        charge = charges.get(item.grant)
        if charge is None:
            wrong.append(f"{name} in {MARGINALS} names no receipt of this release.")
            continue
        if item.grant in used:
            wrong.append(f"{name} in {MARGINALS} names receipt {item.grant}, which is used twice.")
        used.add(item.grant)
        if not _has_noise_of(charge.event, item, shares):
            wrong.append(f"{name} in {MARGINALS} has other noise than receipt {item.grant} paid.")
        if not _is_what_was_asked(item, charge):
            wrong.append(f"{name} in {MARGINALS} is of other columns than receipt {item.grant}.")
        if item.stage != charge.stage:
            wrong.append(f"{name} in {MARGINALS} is of another stage than receipt {item.grant}.")
        if charge.batch not in committed:
            wrong.append(f"{name} in {MARGINALS} was never committed in the ledger.")
        if not 0 <= item.replicate <= sets:
            wrong.append(f"{name} in {MARGINALS} is for a set that does not exist.")
    # Charges for noisy numbers, as opposed to choices and draws.
    numbers = (TABLE["name"], SPARSE_TABLE, "query-counts", *SUMS)
    measuring = [charge.number for charge in paid if charge.asks.get("name") in numbers]
    if unseen := [number for number in measuring if number not in used]:
        wrong.append(f"Receipt {unseen[0]} paid for a table that is not in {MARGINALS}.")
    return wrong or _batches_that_differ(measured, charges, committed, shares)


def _name(item: Measured, number: int) -> str:
    if isinstance(item, Answers | Totals):
        return f"Measurement {number}"
    return f"The noisy table {' x '.join(item.clique) or '(number of rows)'}"


def _is_what_was_asked(item: Measured, charge: Charge) -> bool:
    """Whether a measurement answers the query that its receipt describes."""
    if isinstance(item, Answers | Totals):
        # The method chooses the name; set and round precede it.
        where = step_name("", item.replicate, item.round)
        name = charge.step.removeprefix(where)
        own = charge.step.startswith(where) and not name.startswith(("set ", "round "))
        asked = QueryCounts(item.queries) if isinstance(item, Answers) else item.of
        if isinstance(asked, Interaction):
            # Like a table, it is named after its columns.
            own = charge.step == interaction_step(asked.clique, item.replicate, item.round)
        return own and asked.to_json() == charge.asks
    if table_step(item.clique, item.replicate, item.round) != charge.step:
        return False
    if isinstance(item, SparseTable):
        if not isinstance(charge.event, StabilityEvent):
            return False
        domain, least = item.domain, charge.event.threshold
        table = ThresholdTable(domain.columns, item.capacity, charge.event.scale, least)
        return least == item.threshold and table.asks(domain) == charge.asks
    return charge.asks == TABLE


def _batches_that_differ(
    measured: Sequence[Measured],
    charges: Mapping[int, Charge],
    committed: Mapping[str, str],
    shares: int,
) -> list[str]:
    """Return a sentence for each batch whose noisy counts are not those that were committed."""
    batches: dict[str, list[Measured]] = {}
    for item in sorted(measured, key=lambda item: item.grant):
        batches.setdefault(charges[item.grant].batch, []).append(item)
    return [
        f"Noisy counts of {batch!r:.40} in {MARGINALS} are not those that were committed."
        for batch, drawn in batches.items()
        if _hash(drawn, shares) != committed[batch]
    ]


def _hash(drawn: Sequence[Measured], shares: int) -> str | None:
    """Return the hash of noisy numbers; None if they are not whole numbers of shares."""
    try:
        return result_hash((item.grant, _committed_form(item, shares)) for item in drawn)
    except ValueError:
        return None


def _committed_form(item: Measured, shares: int) -> NDArray[np.int64]:
    """Return noisy numbers in the form in which they were committed.

    Raises:
        ValueError: if one of them is not a whole number of shares.
    """
    if isinstance(item, SparseTable):
        return sparse_result(item.cells, item.values, item.domain.sizes, item.capacity)
    return stored_shares(item.values, shares)


def check_measurements(
    folder: Path,
    claims: Claims,
    first: Path | None,
    fault: BadInput | None,
) -> str | tuple[str, ...]:
    """Return whose noisy tables a release uses, or what contradicts that.

    Args:
        folder: The bundle.
        claims: Claims of its statement.
        first: Bundle of the earlier release; None to check without it.
        fault: What is wrong in that bundle, or cannot be decided (`Undecided`); None if it
            verifies, or without it.

    Raises:
        Undecided: if nothing is wrong here, but that bundle cannot be decided.
    """
    earlier = claims.earlier
    if earlier is None:
        return (
            "The release measured its tables itself, so there is no earlier bundle to compare.",
        )
    wrong = [*_not_connected(claims, earlier)]
    if first is None:
        return tuple(wrong) or (
            f"By the receipts stated here, release {earlier.name!r:.80} paid for the noisy tables."
            " Not compared with the bundle of that release: name its folder with --measurements."
        )
    if isinstance(fault, Undecided):
        if not wrong:
            raise Undecided(f"The bundle {first} cannot be verified here: {fault.message}")
        return tuple(wrong)
    wrong += [f"The bundle {first} does not verify: {fault.message}"] if fault else []
    wrong += [] if fault else _unlike(folder, earlier, first)
    return tuple(wrong) or (
        f"Tables, charges and signatures are those of release {earlier.name!r:.80} in"
        f" {first}, which verifies."
    )


def _not_connected(claims: Claims, earlier: Claims) -> Iterator[str]:
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
    spec, used = claims.plan["spec"], claims.used
    if used is None or spec.get("measurements") != used.document():
        yield f"The plan does not name {name} with its plan and its last receipt."
    for key in ("schema", *MEASURING):
        if canonical_json(spec.get(key)) != canonical_json(earlier.plan["spec"].get(key)):
            yield f"The plan states {key!r} unlike the plan of {name}."
    yield from contradicted_terms(claims)
    promised = [body["epsilon"], body["delta"], body["currency"]["limit"]]
    promised += [body["currency"]["own_delta"], *body["costs"].values()]
    if any(exact_fraction(amount) for amount in promised) or claims.charges or claims.committed:
        yield "The release reserved or charged something, although it uses paid tables."
    yield from _end_and_mode_faults(claims, earlier.charges)
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


def set_of(step: str) -> int:
    """Return the number of the set that a step belongs to, 0 if it belongs to all.

    >>> set_of("age"), set_of("set 12: round 3: age"), set_of("'set 2: age'")
    (0, 12, 0)
    """
    found = _SET.match(step)
    return int(found[1]) if found else 0
