"""Anyone's check of a bundle: files, receipts and privacy arithmetic, from the bundle alone.

It shows that the folder is whole, that its receipts are a chain, and that the noise they state is
enough for the guarantee claimed. It cannot show that the noise was drawn as stated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dp_core.accounting.composition import Composition, Terms
from dp_core.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    PerturbedDrawsEvent,
    StabilityEvent,
)
from dp_core.accounting.sensitivity import count_l1, count_l2_squared
from dp_core.accounting.statement import PLD, shown
from dp_core.bundle.claims import GARBAGE, Charge, Claims, currency, read_claims
from dp_core.bundle.codebook import CODEBOOK, MARGINALS, synthetic_path
from dp_core.bundle.marginals_file import Measured, read_marginals
from dp_core.bundle.report import REPORT
from dp_core.bundle.statement import (
    FORMAT_NAME,
    FORMAT_VERSION,
    STATEMENT,
    file_record,
    render,
)
from dp_core.bundle.wording import differences
from dp_core.canonical import digest
from dp_core.errors import BadInput
from dp_core.exact import exact_fraction
from dp_core.ledger.entries import signed_message
from dp_core.ledger.receipts import first_bad_link, result_hash
from dp_core.ledger.session import (
    DRAWN_RECORDS,
    SPARSE_TABLE,
    TABLE,
    differing_draws,
    sparse_asks,
)
from dp_core.ledger.signing import fingerprint, is_signed
from dp_core.marginals import Answers, SparseTable
from dp_core.names import step_name, table_step
from dp_core.plan import fixed_beforehand
from dp_core.privacy import TABLE_STAGES
from dp_core.scores import QueryCounts, required
from dp_core.sparse_counting import sparse_result

_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer.

    Attributes:
        name: Short name, fixed.
        passed: The answer.
        sentence: What was found, naming the file or receipt if it failed.
    """

    name: str
    passed: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one bundle.

    Attributes:
        folder: The bundle.
        checks: In the order they were made.
    """

    folder: Path
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """Checks that failed."""
        return tuple(check for check in self.checks if not check.passed)

    def to_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "folder": str(self.folder),
            "passed": self.passed,
            "checks": [
                {"name": check.name, "passed": check.passed, "sentence": check.sentence}
                for check in self.checks
            ],
        }


def verify(folder: Path, *, trusted: Collection[str] = ()) -> Verification:
    """Check a bundle and return every finding; nothing in it is trusted.

    Args:
        folder: The bundle.
        trusted: Public keys of the ledger, known from elsewhere; one of them must have signed.

    Raises:
        BadInput: if it is not a folder with a statement in it.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise BadInput(f"{folder} {what}; name the folder of a release (it holds {STATEMENT}).")
    if not (folder / STATEMENT).is_file():
        raise BadInput(f"{folder} is not a release: it holds no {STATEMENT}.")
    try:
        found = _files_in(folder)
    except OSError as error:
        raise BadInput(f"{folder} cannot be read ({error.strerror}).") from None
    document, opening = _statement(folder / STATEMENT)
    checks = [opening]
    if document is None:
        return Verification(folder, tuple(checks))
    checks.append(_guard("files", lambda: _files(folder, found, document)))
    claims = _guarded_claims(document)
    if isinstance(claims, Check):
        return Verification(folder, (*checks, claims))
    checks.append(_guard("receipts", lambda: _receipts(claims)))
    checks.append(_guard("ledger", lambda: _ledger(claims)))
    checks.append(_guard("signature", lambda: _signature(claims, trusted)))
    checks.append(_guard("wording", lambda: differences(document, claims)))
    checks.append(_guard("guarantee", lambda: _guarantee(claims)))
    checks.append(_guard("charges", lambda: _charges(claims)))
    checks.append(_tables(folder, claims))
    checks.append(_guard("sets", lambda: _sets(folder, claims)))
    return Verification(folder, tuple(checks))


def _guard(name: str, check: Callable[[], str | tuple[str, ...]]) -> Check:
    """Turn a check's finding into a `Check`: a text is a pass, a tuple is what failed."""
    try:
        finding = check()
    except BadInput as error:
        return Check(name, False, error.message)
    except OSError as error:
        return Check(name, False, f"A file of the release cannot be read ({error.strerror}).")
    except GARBAGE as error:
        return Check(name, False, f"{STATEMENT} has not the expected form ({_what(error)}).")
    if isinstance(finding, str):
        return Check(name, True, finding)
    more = f" And {len(finding) - 3} more." if len(finding) > 3 else ""
    return Check(name, False, " ".join(finding[:3]) + more)


def _what(error: BaseException) -> str:
    return f"missing {error}" if isinstance(error, KeyError) else type(error).__name__


def _statement(path: Path) -> tuple[dict[str, Any] | None, Check]:
    def failed(sentence: str) -> tuple[None, Check]:
        return None, Check("statement", False, sentence)

    try:
        if path.stat().st_size > _MOST_BYTES:
            return failed(f"{STATEMENT} is far too large to be a statement.")
        content = path.read_bytes()
        document = json.loads(content.decode("utf-8"))
    except OSError as error:
        return failed(f"{STATEMENT} cannot be read ({error.strerror}).")
    except (ValueError, RecursionError):
        return failed(f"{STATEMENT} is not JSON: it is cut off or damaged.")
    try:
        name, version = document["format"]["name"], document["format"]["version"]
        if name != FORMAT_NAME:
            return failed(f"{STATEMENT} is not the statement of a release.")
        if version != FORMAT_VERSION:
            return failed(
                f"{STATEMENT} has format version {version!r:.20}, and this program knows"
                f" {FORMAT_VERSION}; verify it with a newer dp-release."
            )
        body = {key: value for key, value in document.items() if key != "sha256"}
        if digest(body) != document["sha256"] or render(document) != content:
            return None, Check(
                "statement", False, f"{STATEMENT} was changed: its own checksum does not match."
            )
    except GARBAGE as error:
        return failed(f"{STATEMENT} has not the expected form ({_what(error)}).")
    return document, Check("statement", True, f"{STATEMENT} is whole, format {FORMAT_VERSION}.")


def _files_in(folder: Path) -> set[str]:
    """Return the paths of all files below a folder; links count as files, none is followed."""
    found: set[str] = set()

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=refuse):
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in [*files, *linked]:
            found.add((Path(place) / name).relative_to(folder).as_posix())
    return found


def _files(folder: Path, found: set[str], document: Mapping[str, Any]) -> str | tuple[str, ...]:
    listed = document["files"]
    wrong: list[str] = []
    for needed in (MARGINALS, CODEBOOK, REPORT):
        if needed not in listed:
            wrong.append(f"{STATEMENT} lists no {needed}.")
    wrong += [f"{name} is missing." for name in sorted(set(listed) - found)]
    wrong += [
        f"{name} does not belong to the release." for name in sorted(found - {*listed, STATEMENT})
    ]
    for name in sorted(set(listed) & found):
        path = folder / name
        if path.is_symlink() or not path.is_file():
            wrong.append(f"{name} is not an ordinary file.")
            continue
        try:
            record = file_record(path)
        except OSError as error:
            wrong.append(f"{name} cannot be read ({error.strerror}).")
            continue
        if record != listed[name]:
            wrong.append(f"{name} was changed: its checksum does not match.")
    return tuple(wrong) or f"All {len(listed)} files are as they were published, and no other."


def _guarded_claims(document: Mapping[str, Any]) -> Claims | Check:
    try:
        return read_claims(document)
    except BadInput as error:
        return Check("receipts", False, error.message)
    except GARBAGE as error:
        return Check("receipts", False, f"{STATEMENT} has not the expected form ({_what(error)}).")


def _receipts(claims: Claims) -> str | tuple[str, ...]:
    wrong: list[str] = []
    broken = first_bad_link(claims.receipts)
    if broken:
        wrong.append(broken)
    if claims.receipts[-1].hash != claims.head:
        wrong.append(f"The last receipt is not the one that {STATEMENT} names as the last.")
    for row in claims.receipts:
        if row.release != claims.name or row.account != claims.account:
            wrong.append(f"Receipt {row.number} is of another release or account.")
    for what, value, stated in claims.hashes:
        if digest(value) != stated:
            wrong.append(f"The {what} does not have the hash that {STATEMENT} states.")
    if digest(claims.plan) != claims.reserve.body["plan"]:
        wrong.append("The plan is not the one that was reserved: its hash differs.")
    return tuple(wrong) or f"{len(claims.receipts)} receipts form one unbroken chain."


def _ledger(claims: Claims) -> str | tuple[str, ...]:
    wrong: list[str] = []
    if not claims.totals or claims.totals[0].account != claims.account:
        wrong.append("The settlement does not state the total of the account that paid.")
    for total in claims.totals:
        terms = Terms(
            cast(Composition, total.composition), total.epsilon, total.delta, total.own_delta
        )
        if not terms.promised(claims.currency, *claims.enforced).within(terms.limit):
            wrong.append(f"The release costs more than account {total.account!r:.40} has in total.")
    accounts = " and ".join(repr(total.account) for total in claims.totals)
    return tuple(wrong) or f"The release is within the total of account {accounts}."


def _signature(claims: Claims, trusted: Collection[str]) -> str | tuple[str, ...]:
    wrong: list[str] = []
    link, receipts_by, signature = claims.place or ("", None, None)
    message = signed_message(claims.head, link)
    if receipts_by is not None and not is_signed(receipts_by, message, signature):
        wrong.append("The last receipt has not the signature that is stated for it.")
    signed_by, signature = claims.signature or (None, None)
    if signed_by is not None and not is_signed(signed_by, claims.message, signature):
        wrong.append(f"{STATEMENT} has not the signature that is stated for it.")
    # Whoever signed the statement vouches for the receipts in it, whoever had signed those.
    if trusted and signed_by not in trusted:
        wrong.append(f"{STATEMENT} is not signed by the key that was given.")
    if wrong:
        return tuple(wrong)
    known = "the key that was given"
    if signed_by is None:
        if receipts_by is None:
            return "Nothing is signed: whoever passed the release on could have made it anew."
        return (
            "The receipts, the totals of the accounts and, through the commits, the noisy tables"
            f" are signed by {_named(receipts_by)}; the synthetic sets and the rest are not."
        )
    if not trusted:
        known = _named(signed_by)
    return f"{STATEMENT}, and through it every file, is signed by {known}."


def _named(public: str) -> str:
    return f"key {fingerprint(public)}, which is to be compared elsewhere"


def _guarantee(claims: Claims) -> str | tuple[str, ...]:
    body: Mapping[str, Any] = claims.reserve.body
    epsilon, delta = claims.enforced
    wrong: list[str] = []
    if (epsilon, delta) != (exact_fraction(body["epsilon"]), exact_fraction(body["delta"])):
        wrong.append("The stated (epsilon, delta) is not the one that was reserved.")
    if (claims.neighbours, claims.unit) != (body["neighbours"], body["unit"]):
        wrong.append("The stated neighbours or unit are not those that were reserved.")
    reserved = currency(*(body["currency"][name] for name in ("kind", "limit", "own_delta")))
    if reserved != claims.currency:
        wrong.append("The stated currency or total is not the one that was reserved.")
    if epsilon <= 0 or not 0 <= delta < 1:
        return (*wrong, "The stated (epsilon, delta) is no guarantee.")
    if not reserved.implies(epsilon, delta):
        wrong.append(
            "The reserved total does not imply the stated (epsilon, delta) by the accounting of"
            f" this program; the release was made with {claims.program}."
        )
    if wrong:
        return tuple(wrong)
    sentences: list[str] = []
    for claim in (claims.tightest, claims.also):
        if claim is None:
            continue
        pair = claim.epsilon, claim.delta
        words = f"epsilon {float(claim.epsilon):.6g} at delta {float(claim.delta):.3g}"
        implied = pair == claims.enforced or reserved.implies(*pair)
        if claim.theorem == reserved.theorem and implied:
            sentences.append(f"The reserved total implies {words}.")
        elif claim.theorem == PLD and _shown(claims, *pair):
            sentences.append(f"The noise of the planned tables gives {words}.")
        else:
            wrong.append(
                f"Neither the reserved total nor the noise of the tables gives {words}, by the"
                " theorem that is named."
            )
    return tuple(wrong) or " ".join(sentences)


def _shown(claims: Claims, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether the receipts' own noise shows a guarantee that the total does not.

    Recomputed without any tolerance: what is published was rounded up by more than two machines'
    results differ.
    """
    # privacy: losses of events compose only where no event depended on another's result.
    tables = all(charge.stage in TABLE_STAGES for charge in claims.charges)
    if not (claims.charges and tables and fixed_beforehand(claims.plan)):
        return False
    return shown([charge.event for charge in claims.charges], claims.neighbours, epsilon, delta)


def _charges(claims: Claims) -> str | tuple[str, ...]:
    wrong: list[str] = []
    costs = {
        stage: exact_fraction(cost)
        for stage, cost in cast("Mapping[str, object]", claims.reserve.body["costs"]).items()
    }
    spent: dict[str, Fraction] = dict.fromkeys(costs, Fraction(0))
    for charge in claims.charges:
        spent[charge.stage] = spent.get(charge.stage, Fraction(0)) + charge.cost
        try:
            cost = claims.currency.cost(charge.event)
        except ValueError:
            wrong.append(f"Receipt {charge.number} is for an event that this currency cannot pay.")
            continue
        if cost <= 0 or cost > charge.cost:
            wrong.append(f"Receipt {charge.number} charges less than its event costs.")
        enough = _sensitive_enough(charge, claims)
        if enough is None:
            wrong.append(
                f"Receipt {charge.number} is for a question whose sensitivity this program does not"
                " know."
            )
        elif not enough:
            wrong.append(
                f"Receipt {charge.number} assumes a smaller effect of one {claims.unit} than its"
                " neighbours have."
            )
    for stage, total in spent.items():
        if total > costs.get(stage, Fraction(0)):
            wrong.append(f"Stage {stage!r:.40} charged more than was reserved for it.")
    if sum(spent.values()) > claims.currency.limit or sum(costs.values()) > claims.currency.limit:
        wrong.append("The charges add up to more than was reserved.")
    # privacy: what thresholds fail with is no part of any cost; it is counted by itself.
    own_delta = sum((charge.event.own_delta() for charge in claims.charges), Fraction(0))
    if own_delta > claims.currency.own_delta:
        wrong.append("The thresholds fail with a larger probability than was reserved for them.")
    # Without the settlement, receipts at the end of the chain could have been left out.
    if claims.settled is None or claims.settled.body["outcome"] != "finished":
        wrong.append("No receipt says that the release was finished and settled.")
    elif exact_fraction(claims.settled.body["spent"]) != sum(spent.values()):
        wrong.append("The settlement states another sum than was charged.")
    if not claims.charges:
        wrong.append("Nothing was charged, so nothing can have been measured.")
    return tuple(wrong) or (
        f"{len(claims.charges)} charges cover their events and stay within the reservation."
    )


def _noise(event: Event) -> tuple[str, Fraction] | None:
    if isinstance(event, LaplaceEvent | StabilityEvent):
        return "laplace", event.scale
    return ("gaussian", event.scale) if isinstance(event, GaussianEvent) else None


def _sensitive_enough(charge: Charge, claims: Claims) -> bool | None:
    """Return whether an event is calibrated to what one record can do to what it was computed from.

    None where the receipt describes nothing whose sensitivity is proven.
    """
    neighbours, name = claims.neighbours, None
    try:
        # privacy: the more rows a score is said to be of, the smaller its sensitivity.
        if charge.asks.get("rows", claims.records) != claims.records:
            return None
        name = charge.asks["name"]
        if charge.asks == TABLE or name == SPARSE_TABLE:
            change, l1, l2_squared = 1, count_l1(neighbours), count_l2_squared(neighbours)
        elif name == DRAWN_RECORDS:
            change = l1 = l2_squared = differing_draws(charge.asks, neighbours)
        else:
            change, l1, l2_squared = required(charge.asks, neighbours)
    except GARBAGE:
        return None
    # privacy: of observed cells only what a threshold keeps is proven to be private, and of draws
    # only those by counts with virtual records; neither mechanism is proven for anything else.
    match charge.event:
        case StabilityEvent(l1_sensitivity=stated):
            return name == SPARSE_TABLE and stated >= l1
        case PerturbedDrawsEvent(draws=stated):
            return name == DRAWN_RECORDS and stated >= change
        case _ if name in (SPARSE_TABLE, DRAWN_RECORDS):
            return False
        case LaplaceEvent(l1_sensitivity=stated):
            return stated >= l1
        case GaussianEvent(l2_sensitivity_squared=stated):
            return stated >= l2_squared
        case NoisyMaxEvent(sensitivity=stated):
            return stated >= change
    # privacy: what one record can do to another mechanism's result is not known here.
    return False


def _tables(folder: Path, claims: Claims) -> Check:
    try:
        measured = read_marginals(folder / MARGINALS, claims.schema)
    except BadInput as error:
        return Check("tables", False, error.message)
    return _guard("tables", lambda: _paid(measured, claims))


def _paid(measured: Sequence[Measured], claims: Claims) -> str | tuple[str, ...]:
    wrong: list[str] = []
    charges = {charge.number: charge for charge in claims.charges}
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
        if _noise(charge.event) != (item.noise, Fraction(item.scale)):
            wrong.append(f"{name} in {MARGINALS} has other noise than receipt {item.grant} paid.")
        if not _is_what_was_asked(item, charge):
            wrong.append(f"{name} in {MARGINALS} is of other columns than receipt {item.grant}.")
        if item.stage != charge.stage:
            wrong.append(f"{name} in {MARGINALS} is of another stage than receipt {item.grant}.")
        if charge.batch not in claims.committed:
            wrong.append(f"{name} in {MARGINALS} was never committed in the ledger.")
        if not 0 <= item.replicate <= claims.sets:
            wrong.append(f"{name} in {MARGINALS} is for a set that does not exist.")
    unseen = [
        charge.number
        for charge in claims.charges
        if charge.number not in used and _is_measurement(charge)
    ]
    if unseen:
        wrong.append(f"Receipt {unseen[0]} paid for a table that is not in {MARGINALS}.")
    if not wrong:
        wrong += _changed(measured, charges, claims.committed)
    return tuple(wrong) or f"{len(measured)} noisy tables, each paid for by its own receipt."


def _name(item: Measured, number: int) -> str:
    if isinstance(item, Answers):
        return f"Measurement {number}"
    return f"The noisy table {' x '.join(item.clique) or '(number of rows)'}"


def _is_measurement(charge: Charge) -> bool:
    """Return whether a charge is for noisy numbers of the file: no choice, and no draw."""
    names = (TABLE["name"], SPARSE_TABLE, "query-counts")
    return charge.asks.get("name") in names


def _is_what_was_asked(item: Measured, charge: Charge) -> bool:
    """Return whether a measurement is of what its receipt says was computed from the data."""
    if isinstance(item, Answers):
        # Its name is the method's own; of which set and round it is stands before it.
        where = step_name("", item.replicate, item.round)
        name = charge.step.removeprefix(where)
        own = charge.step.startswith(where) and not name.startswith(("set ", "round "))
        return own and QueryCounts(item.queries).to_json() == charge.asks
    if table_step(item.clique, item.replicate, item.round) != charge.step:
        return False
    if isinstance(item, SparseTable):
        kept = isinstance(charge.event, StabilityEvent) and charge.event.threshold == item.threshold
        return kept and sparse_asks(item.domain, item.capacity) == charge.asks
    return charge.asks == TABLE


def _changed(
    measured: Sequence[Measured], charges: Mapping[int, Charge], committed: Mapping[str, str]
) -> list[str]:
    """Return a sentence for each batch whose noisy counts are not those that were committed."""
    batches: dict[str, list[Measured]] = {}
    for item in sorted(measured, key=lambda item: item.grant):
        batches.setdefault(charges[item.grant].batch, []).append(item)
    return [
        f"Noisy counts of {batch!r:.40} in {MARGINALS} are not those that were committed."
        for batch, drawn in batches.items()
        if result_hash((item.grant, _stored(item)) for item in drawn) != committed[batch]
    ]


def _stored(item: Measured) -> NDArray[np.int64]:
    """Return noisy numbers in the form in which they were stored and committed."""
    if isinstance(item, SparseTable):
        return sparse_result(item.cells, item.values, item.domain.sizes, item.capacity)
    return item.values


def _sets(folder: Path, claims: Claims) -> str | tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    wrong: list[str] = []
    if claims.reserve.body["sets"] != claims.sets:
        wrong.append(f"{STATEMENT} states another number of sets than was reserved.")
    if len(claims.rows) != claims.sets:
        return (f"{STATEMENT} does not state the rows of every set.",)
    described = _codebook_columns(folder)
    names = {path.name for path in (folder / "synthetic").glob("*")}
    if len(names) != claims.sets:
        wrong.append(f"The folder synthetic holds {len(names)} sets, not {claims.sets}.")
    for number in range(1, min(claims.sets, len(names)) + 1):
        path = synthetic_path(number)
        try:
            with pq.ParquetFile(folder / path) as file:
                rows, columns = file.metadata.num_rows, file.schema_arrow.names
        except (OSError, pa.ArrowException, ValueError):
            wrong.append(f"{path} cannot be read as Parquet.")
            continue
        if rows != claims.rows[number - 1]:
            wrong.append(f"{path} has another number of rows than {STATEMENT} states.")
        if described is not None and columns != described.get(path):
            wrong.append(f"{path} has other columns than {CODEBOOK} describes.")
    if described is None:
        wrong.append(f"{CODEBOOK} cannot be read as a codebook.")
    sets = f"{claims.sets} synthetic set{'s' if claims.sets != 1 else ''}"
    return tuple(wrong) or f"{sets} with {sum(claims.rows)} rows, as described."


def _codebook_columns(folder: Path) -> dict[str, list[str]] | None:
    try:
        document = json.loads((folder / CODEBOOK).read_bytes().decode("utf-8"))
        return {
            resource["path"]: [field["name"] for field in resource["schema"]["fields"]]
            for resource in document["resources"]
        }
    except (OSError, *GARBAGE):
        return None
