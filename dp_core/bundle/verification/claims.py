"""The claims of a statement, read into types; none of them is trusted.

A check that depends on a method which this version of dp-release does not know is undecided: no
fault was found, but it never counts as passed, because a forged bundle can name any method.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, get_args

from dp_core.accounts.guarantee import Guarantee
from dp_core.accounts.ledger_position import Place, Total
from dp_core.accounts.plain_entries import read_receipt
from dp_core.accounts.signatures import is_signed, signed_message
from dp_core.bundle.best_set import BEST, BestSet
from dp_core.bundle.statement.release_json import STATEMENT, statement_message
from dp_core.bundle.statement.sections import MEASUREMENTS
from dp_core.errors import BadInput
from dp_core.inference.formulas.analysed_values import with_analysed_values
from dp_core.kernel.cost.currency import Currency, Kind
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.document import UNIT_KEYS, check_document, document_hash
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.extensions import EXTENSIONS
from dp_core.kernel.ledger.account_terms import unknown_terms
from dp_core.kernel.ledger.receipts import Receipt
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.privacy import Relation, stated_relation
from dp_core.methods import registry
from dp_core.methods.bin_density.fitting import with_statement as with_stated_densities
from dp_core.methods.registry import Family
from dp_core.plan.chosen_domain import read_statement, with_choices
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.schema.compiled import kernel_document
from dp_core.schema.definition import Schema
from dp_core.schema.grid import on_grid
from dp_core.schema.reading.schema_file import parse_schema


@dataclass(frozen=True, slots=True)
class Charge:
    """A receipt of kind `charge`.

    Attributes:
        number: Number of the receipt.
        stage: Stage that paid.
        step: Name of the step that was charged.
        batch: Name of the batch in which the step was drawn and committed.
        cost: Cost in the currency of the release.
        event: Event that was charged.
        asks: The query, as the receipt describes it.
    """

    number: int
    stage: str
    step: str
    batch: str
    cost: Fraction
    event: Event
    asks: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What an analysis must know about a release; the claims of a statement have these facts.

    Attributes:
        name: Name of the release.
        relation: Neighbouring relation of the guarantee.
        currency: Kind of cost, with the total.
        plan: The plan's document.
        schema: The schema that defines the codes.
        sets: Number of synthetic sets.
        rows: Number of rows of each set.
        records: Number of records of the file; None unless it is public.
        off: Deviation of each set's weights from public totals; empty without totals.
        best: The best set; None if there is none.
    """

    name: str
    relation: Relation
    currency: Currency
    plan: Mapping[str, Any]
    schema: Schema
    sets: int
    rows: tuple[int, ...]
    records: int | None
    off: tuple[float, ...]
    best: BestSet | None

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the sets: 1 to m, after the best set, if any."""
        return range(1 if self.best is None else BEST, self.sets + 1)


@dataclass(frozen=True, slots=True)
class Claims(Facts):
    """The claims of a statement; see `Facts` for those that analyses use.

    Attributes:
        account: Account that paid.
        head: Stated hash of the last receipt.
        unit: Unit of the guarantee, as the statement has it (`ProtectedUnit.stated`).
        enforced: Enforced epsilon and delta.
        tightest: The guarantee to quote.
        also: The second guarantee; None if there is none.
        hashes: Names of hashed values, with the value and its stated hash.
        receipts: All receipts, in order.
        reserve: The first receipt, which is the reservation.
        charges: Receipts of charges.
        committed: Hash of the committed result of each batch.
        settled: Receipt of the settlement; None if there is none.
        persons: Number of persons of each set of linked tables; empty otherwise.
        totals: Totals of the accounts that paid, from the settlement; empty without one.
        place: Place and signature of the last receipt; None if not stated.
        signature: Public key and signature of the whole statement; None if it is not signed.
        message: The message that was signed.
        program: Name and version of the program that made the release.
        earlier: Claims about the release whose noisy tables are used; None if this one measured.
    """

    account: str
    head: str
    unit: Mapping[str, object]
    enforced: tuple[Fraction, Fraction]
    tightest: Guarantee
    also: Guarantee | None
    hashes: tuple[tuple[str, object, str], ...]
    receipts: tuple[Receipt, ...]
    reserve: Receipt
    charges: tuple[Charge, ...]
    committed: Mapping[str, str]
    settled: Receipt | None
    persons: tuple[int, ...]
    totals: tuple[Total, ...]
    place: Place | None
    signature: tuple[str, str] | None
    message: bytes
    program: str
    earlier: Claims | None

    @property
    def document(self) -> dict[str, Any]:
        """The kernel's document that schema and plan give."""
        return kernel_document(
            self.analysed,
            release=self.name,
            neighbours=self.relation.neighbours,
            currency=self.plan["currency"],
            costs=self.plan["costs"],
            extensions=self.plan["extensions"],
        )

    @property
    def analysed(self) -> Schema:
        """The schema, with columns stored on the grids that declared analyses need."""
        declared = self.plan["spec"].get("analyses", {}).get("formulas", ())
        return with_analysed_values(self.schema, declared) if declared else self.schema

    def domain_of(self, stage: str) -> Domain:
        """Return the columns and their numbers of codes that the questions of a stage are about."""
        if stage in ("domain", "analyses"):
            return self.analysed.stored.domain
        return (self.schema.coarse or self.schema if stage == "checks" else self.schema).domain

    @property
    def receipts_signed(self) -> bool:
        """Whether no signature of the last receipt is stated, or the stated one is right."""
        if self.place is None or self.place.public_key is None:
            return True
        message = signed_message(self.head, self.place.link)
        return is_signed(self.place.public_key, message, self.place.signature)

    @property
    def used(self) -> EarlierRelease | None:
        """The release whose noisy tables are used, as stated; None if this one measured."""
        if (one := self.earlier) is None:
            return None
        return EarlierRelease(one.name, self.account, one.plan, one.receipts, one.place)

    @property
    def payer(self) -> Claims:
        """The claims about the release that measured and paid: the earlier one, or this one."""
        return self.earlier or self


def read_claims(document: Mapping[str, Any]) -> Claims:
    """Return the claims of a statement.

    Args:
        document: A statement of a known format; its content may be anything.

    Raises:
        BadInput: if a claim on which all checks depend is missing or unknown.
        Exception: one of `GARBAGE` if a value does not have the expected form.
    """
    ledger, guarantee, method = document["ledger"], document["guarantee"], document["method"]
    receipts = tuple(read_receipt(row) for row in ledger["receipts"])
    if not receipts or [row.kind for row in receipts].count("reserve") != 1:
        raise BadInput(f"{STATEMENT} contains no receipt of a reservation, or several.")
    reserve, signed = receipts[0], document["signature"]
    settled = next((row for row in receipts if row.kind == "settle"), None)
    if guarantee["neighbours"] not in ("add-remove", "replace-one"):
        raise BadInput(f"{STATEMENT} states an unknown neighbouring relation.")
    return Claims(
        name=_text(document["release"]["name"]),
        account=_text(ledger["account"]),
        head=_text(ledger["head"]),
        relation=stated_relation(guarantee),
        unit={name: guarantee[name] for name in UNIT_KEYS if name in guarantee},
        enforced=_pair(guarantee["enforced"]),
        tightest=_guarantee(guarantee["tightest"]),
        also=None if guarantee["also"] is None else _guarantee(guarantee["also"]),
        currency=currency(
            ledger["currency"]["kind"],
            ledger["currency"]["limit"]["exact"],
            ledger["currency"]["own_delta"]["exact"],
        ),
        plan=method["plan"],
        hashes=(
            ("plan", method["plan"], _text(method["plan_sha256"])),
            ("schema", method["schema"], _text(method["schema_sha256"])),
        ),
        receipts=receipts,
        reserve=reserve,
        charges=tuple(read_charge(row) for row in receipts if row.kind == "charge"),
        committed=committed_in(receipts),
        settled=settled,
        sets=_whole(document["sets"]["m"]),
        rows=tuple(_whole(rows) for rows in document["sets"]["rows"]),
        persons=tuple(_whole(each) for each in document["sets"].get("persons", ())),
        best=BestSet.from_json(document["sets"]["best"]) if "best" in document["sets"] else None,
        records=_records(document["sets"]["records"]),
        schema=_schema(method),
        totals=tuple(
            Total.from_json(total)
            for total in cast("Sequence[Any]", settled.body["totals"] if settled else ())
        ),
        off=tuple(map(float, document["sets"].get("weights", {}).get("largest_deviation", ()))),
        place=_place(ledger["place"]),
        signature=signed and (_text(signed["public_key"]), _text(signed["signature"])),
        message=statement_message(document),
        program=program_of(document),
        earlier=read_claims(_measuring(document)) if MEASUREMENTS in document else None,
    )


def _measuring(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a statement as the release that measured would make it, for the same guarantee."""
    used, rest = document[MEASUREMENTS], {**document}
    del rest[MEASUREMENTS]
    sets = {"m": used["plan"]["spec"]["synthesize"]["sets"], "rows": []}
    return {
        **rest,
        "release": {**document["release"], "name": used["release"]},
        "method": {**document["method"], "plan": used["plan"], "plan_sha256": used["plan_sha256"]},
        "ledger": {
            **document["ledger"],
            **{name: used[name] for name in ("currency", "receipts", "head", "place")},
        },
        "sets": {
            **{name: each for name, each in document["sets"].items() if name != "best"},
            **sets,
        },
    }


def committed_in(receipts: Sequence[Receipt]) -> dict[str, str]:
    """Return the hash of the committed result of each batch, from all receipts of a release."""
    return {
        _text(row.body["batch"]): _text(row.body["result"])
        for row in receipts
        if row.kind == "commit"
    }


def read_charge(row: Receipt) -> Charge:
    """Return a receipt of kind `charge` as a `Charge`.

    Raises:
        Exception: one of `GARBAGE` if a value does not have the expected form.
    """
    event = cast("Mapping[str, object]", row.body["event"])
    exact_fraction(event["scale"])  # bounded before anyone multiplies it
    return Charge(
        number=row.number,
        stage=_text(row.body["stage"]),
        step=_text(row.body["step"]),
        batch=_text(row.body["batch"]),
        cost=exact_fraction(row.body["cost"]),
        event=event_from_json(event),
        asks=cast("Mapping[str, Any]", deepcopy(row.body["asks"])),  # plain, as questions read it
    )


def _schema(method: Mapping[str, Any]) -> Schema:
    """Return the schema that defines the codes, on a grid if the method works on one."""
    schema = parse_schema(method["schema"])
    if schema.private:
        # A check of its own compares these with the measurements.
        schema = with_choices(schema, read_statement(method["domain"]))
    # A check of its own compares these with the measurements too.
    schema = with_stated_densities(schema, method.get("densities", []))
    positions = method["plan"]["spec"]["synthesize"].get("positions")
    return schema if positions is None else on_grid(schema, _whole(positions))


def _records(values: Mapping[str, Any]) -> int | None:
    return int(values["value"]) if values["how"] == "public" else None


def _place(values: Mapping[str, Any] | None) -> Place | None:
    if values is None:
        return None
    public, signature = values["public_key"], values["signature"]
    return Place(
        link=_text(values["link"]),
        public_key=None if public is None else _text(public),
        signature=None if signature is None else _text(signature),
    )


def currency(kind: object, limit: object, own_delta: object) -> Currency:
    """Return a currency from its kind and the exact texts of its total and its own delta.

    Raises:
        BadInput: if the kind is not known.
    """
    if kind not in get_args(Kind):
        raise BadInput(f"{STATEMENT} states an unknown currency.")
    return Currency(cast(Kind, kind), exact_fraction(limit), exact_fraction(own_delta))


def _guarantee(values: Mapping[str, Any]) -> Guarantee:
    epsilon, delta = _pair(values)
    return Guarantee(epsilon=epsilon, delta=delta, theorem=_text(values["theorem"]))


def _pair(guarantee: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    epsilon, delta = guarantee["epsilon"]["exact"], guarantee["delta"]["exact"]
    return exact_fraction(epsilon), exact_fraction(delta)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("not a whole number")
    return value


def program_of(document: Mapping[str, Any]) -> str:
    """Return the program that made a release, with its version if that is well-formed.

    People may install it.
    """
    version = document["software"].get("dp_release")
    known = isinstance(version, str) and re.fullmatch(r"\d{1,4}(\.\w{1,8}){0,4}", version)
    return f"dp_release {version}" if known else "the version of dp_release"


class Undecided(BadInput):
    """A check that this program cannot decide: what is unknown, and which version to install."""


def unknown_method(plan: Mapping[str, Any]) -> str:
    """Return the name of an unknown method in a plan; empty if all its methods are known.

    Args:
        plan: Plan of a bundle; it is not trusted.

    Raises:
        Exception: a lookup, type or attribute error if it does not have the form of a plan.
    """
    spec = plan["spec"]
    parametric = spec["synthesize"].get("method")
    if parametric is not None:
        return _unknown("parametric", parametric)
    unknown = _unknown("reconstruction", spec["reconstruct"]["method"])
    return _unknown("selection", spec["select"]["method"]) or unknown


def unknown_selection(plan: Mapping[str, Any]) -> str:
    """Return the name of an unknown selection, which may or may not use the data; else empty.

    It is looked up in its family: a parametric method may have the name of a selection.
    """
    spec = plan["spec"]
    return _unknown("selection", spec["select"]["method"]) if "select" in spec else ""


def _unknown(family: Family, name: object) -> str:
    try:
        registry.find(family, str(name))
    except BadInput:
        return str(name)
    return ""


def undecided_by_method(name: str, program: str, what: str) -> Undecided:
    """Return the error that something cannot be checked, and what to install.

    Args:
        name: Name of the method.
        program: Program that made the release, with its version.
        what: Subject of the sentence: what cannot be checked.
    """
    return Undecided(
        f"The method {name!r:.40} is not known to this dp-release, so {what} cannot be checked."
        f" Install {program}, which made the release, and run `dp-release verify` with it."
    )


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
    # Earlier versions did not reserve the link of a household.
    if body.get("link", claims.schema.unit.link) != claims.schema.unit.link:
        yield "The reserved link of the households is not that of the schema."
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
