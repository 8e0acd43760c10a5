"""Test vectors of the kernel: events to costs, receipts to claims, documents and codes.

Usage:
    python -m tests.vectors.make

It rewrites the JSON files in this folder. docs/wall.md says how another implementation uses them;
tests/test_vectors.py compares them with the program, and confirms them without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_core.accounts.guarantee import implied, second, tightest
from dp_core.accounts.largest_release import epsilon_of
from dp_core.accounts.loss_distribution import tightest_epsilon
from dp_core.accounts.plain_entries import result_hash
from dp_core.accounts.requested import Privacy, words_of
from dp_core.kernel.coding.coding_rule import coding_rule
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.kernel.cost.currency import Currency, Kind, choice_event, largest_limit
from dp_core.kernel.cost.curves import gaussian_epsilon, gaussian_limit, zcdp_epsilon
from dp_core.kernel.document import NAME, check_document, document_hash
from dp_core.kernel.document import VERSION as DOCUMENT_VERSION
from dp_core.kernel.errors import BadInput
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.ledger.receipts import START, Receipt, make_receipt
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Neighbours, Relation

FOLDER = Path(__file__).parent
VERSION = 1

TABLE: dict[str, Any] = {"name": "table"}
CHECKS: dict[str, Any] = {"name": "table-checks", "tables": [["sex"]], "question": "0" * 64}
PAIRS: dict[str, Any] = {"name": "indif", "length": 3}
SPARSE: dict[str, Any] = {"name": "sparse-table", "capacity": 1000}
DRAWN: dict[str, Any] = {"name": "drawn-records", "tables": [["sex"], ["age", "sex"]]}
CELLS: dict[str, Any] = {"name": "drawn-cells", "records": 3}
KINDS: tuple[Kind, ...] = ("pure", "zcdp", "gaussian", "mixed")
DELTAS = tuple(Fraction(text) for text in ("1e-3", "1e-6", "1e-9"))

Case = tuple[str, Neighbours, int, Event, Mapping[str, Any]]

EVENTS: tuple[Case, ...] = (
    ("Laplace, a table", "add-remove", 1, LaplaceEvent(Fraction(3), 1), TABLE),
    ("Laplace, a table", "replace-one", 1, LaplaceEvent(Fraction(3), 2), TABLE),
    ("Laplace, one entry moves by 2", "replace-one", 1, LaplaceEvent(Fraction(20), 2), CHECKS),
    ("Laplace, three scores", "add-remove", 1, LaplaceEvent(Fraction(40), 12), PAIRS),
    ("Laplace, a person of 4 rows", "add-remove", 4, LaplaceEvent(Fraction(25), 4), TABLE),
    ("Gaussian, a table", "add-remove", 1, GaussianEvent(Fraction(13, 2), 1), TABLE),
    ("Gaussian, a table", "replace-one", 1, GaussianEvent(Fraction(13, 2), 2), TABLE),
    ("Gaussian, wide", "add-remove", 1, GaussianEvent(Fraction(300), 1), TABLE),
    ("Gaussian, three scores", "replace-one", 1, GaussianEvent(Fraction(80), 108), PAIRS),
    ("Gaussian, a person of 4 rows", "replace-one", 4, GaussianEvent(Fraction(60), 32), TABLE),
    ("exponential mechanism", "add-remove", 1, NoisyMaxEvent(Fraction(80), 4, True), PAIRS),
    ("exponential mechanism", "replace-one", 1, NoisyMaxEvent(Fraction(120), 6, True), PAIRS),
    ("permute-and-flip", "add-remove", 1, NoisyMaxEvent(Fraction(16), 4, False), PAIRS),
    ("stability histogram", "add-remove", 1, StabilityEvent(Fraction(4), 1, 85), SPARSE),
    ("stability histogram", "replace-one", 1, StabilityEvent(Fraction(4), 2, 85), SPARSE),
    (
        "stability histogram, a person of 3 rows",
        "add-remove",
        3,
        StabilityEvent(Fraction(2), 3, 30, 3),
        SPARSE,
    ),
    ("draws by counts", "add-remove", 1, PerturbedDrawsEvent(Fraction(5, 2), 2), DRAWN),
    ("draws by counts", "replace-one", 2, PerturbedDrawsEvent(Fraction(5, 2), 4, 2), DRAWN),
    ("urn", "add-remove", 1, PolyaUrnEvent(Fraction(7, 2), 3), CELLS),
    ("urn", "replace-one", 2, PolyaUrnEvent(Fraction(7, 2), 3, 2), CELLS),
)

HOUSEHOLDS: tuple[tuple[str, Neighbours, int, Event, Mapping[str, Any]], ...] = (
    ("Laplace, a household", "add-remove", 12, LaplaceEvent(Fraction(60), 12), TABLE),
    ("Laplace, a household of 2 shares", "add-remove", 2, LaplaceEvent(Fraction(14), 2), TABLE),
    ("Gaussian, a household", "add-remove", 12, GaussianEvent(Fraction(100), 144), TABLE),
    ("Gaussian, a household", "replace-one", 2520, GaussianEvent(Fraction(30000), 12700800), TABLE),
)
"""Events on counts in shares: name, relation, shares of a household, event and question."""

Charge = tuple[int, Event, Mapping[str, Any]]

RELEASES: tuple[tuple[str, Neighbours, Kind, Sequence[Charge]], ...] = (
    ("10 Laplace tables", "add-remove", "pure", [(10, LaplaceEvent(Fraction(12), 1), TABLE)]),
    ("100 Laplace tables", "replace-one", "pure", [(100, LaplaceEvent(Fraction(200), 2), TABLE)]),
    ("10 charged checks", "replace-one", "pure", [(10, LaplaceEvent(Fraction(20), 2), CHECKS)]),
    ("30 Gaussian tables", "add-remove", "zcdp", [(30, GaussianEvent(Fraction(40), 1), TABLE)]),
    (
        "tables of two noises",
        "replace-one",
        "gaussian",
        [(8, GaussianEvent(Fraction(30), 2), TABLE), (20, GaussianEvent(Fraction(50), 2), TABLE)],
    ),
    (
        "tables and scores",
        "add-remove",
        "gaussian",
        [(5, GaussianEvent(Fraction(30), 1), TABLE), (1, GaussianEvent(Fraction(160), 48), PAIRS)],
    ),
    (
        "Laplace and Gaussian tables",
        "add-remove",
        "zcdp",
        [(4, LaplaceEvent(Fraction(25), 1), TABLE), (6, GaussianEvent(Fraction(20), 1), TABLE)],
    ),
    (
        "choices, then tables",
        "add-remove",
        "mixed",
        [
            (6, NoisyMaxEvent(Fraction(150), 4, True), PAIRS),
            (10, GaussianEvent(Fraction(24), 1), TABLE),
        ],
    ),
    (
        "choices in zCDP",
        "add-remove",
        "zcdp",
        [
            (6, NoisyMaxEvent(Fraction(80), 4, True), PAIRS),
            (2, NoisyMaxEvent(Fraction(900), 4, False), PAIRS),
            (10, GaussianEvent(Fraction(30), 1), TABLE),
        ],
    ),
)

ACCOUNTS: tuple[tuple[str, Terms, Sequence[tuple[Kind, str, str, str, int]]], ...] = (
    (
        "basic",
        Terms("basic", Fraction(10), Fraction(1, 10**6)),
        [("pure", "1/2", "0", "0", 4), ("gaussian", "1", "1e-9", "0", 3)],
    ),
    (
        "zcdp",
        Terms("zcdp", Fraction(4), Fraction(1, 10**6), Fraction(1, 10**8)),
        [
            ("pure", "1/5", "0", "0", 5),
            ("zcdp", "1", "1e-9", "0", 6),
            ("gaussian", "1", "1e-9", "0", 4),
            ("mixed", "1", "1e-9", "0", 2),
            ("pure", "1/4", "1e-9", "1e-9", 3),
        ],
    ),
)


POLICY: dict[str, Any] = {
    "missing": "level",
    "missing_values": [""],
    "out_of_range": "missing",
}
SEX: dict[str, Any] = {
    "name": "sex",
    "kind": "levels",
    "codes": 3,
    "levels": [["1", "male"], ["2", "female"]],
    **POLICY,
}
AGE: dict[str, Any] = {
    "name": "age",
    "kind": "integer",
    "codes": 3,
    "low": "0",
    "high": "99",
    "edges": ["0", "15", "100"],
    **POLICY,
}
INCOME = AGE | {
    "name": "income",
    "kind": "number",
    "codes": 2,
    "high": "100",
    "edges": ["0", "49/2", "100"],
    "missing": "reject",
    "out_of_range": "clip",
}
BORN = AGE | {
    "name": "born",
    "kind": "date",
    "format": "%d.%m.%Y",
    "low": "730120",
    "high": "730485",
    "edges": ["730120", "730300", "730486"],
}
CLOCK = AGE | {
    "name": "start",
    "kind": "parts",
    "parts": {
        "pattern": "^(?P<h>[0-9]{2}):(?P<m>[0-5][0-9])$",
        "weights": {"h": 60, "m": 1},
        "seconds": 60,
        "last": 1439,
    },
}
CODED: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    (SEX, ("male", "1", "2", "female", "Male", " 1", "", "3")),
    (AGE, ("0", "14", "15", "99", "100", "-1", "", "14.0", "007", "1e1", "x")),
    (INCOME, ("0", "24.5", "24.499999999999999999", "100", "100.01", "-3", "1/3", "", "1,5")),
    (
        BORN,
        ("01.01.2000", "31.12.2000", "29.06.2000", "01.01.2001", "", "2000-01-01", "30.02.2000"),
    ),
    (CLOCK, ("00:14", "00:15", "01:39", "01:40", "7:30", "24:00", "23:59", "")),
)
"""Rules of each kind, and texts at the borders of what they take."""

DOCUMENT: dict[str, Any] = {
    "format": {"name": NAME, "version": DOCUMENT_VERSION},
    "release": "town-2026",
    "neighbours": "replace-one",
    "unit": {"word": "row"},
    "records": {"of": "rows"},
    "columns": [SEX, AGE],
    "dependents": [],
    "rules": {"impossible": [], "between": [], "members": [], "nested": None},
    "currency": {"kind": "zcdp", "limit": "1/50", "own_delta": "0"},
    "stages": {"one_way": "1/500", "measure": "9/500"},
    "extensions": ["indif"],
}
_PERSON = {"word": "person", "identified_by": "id", "most": 3, "missing_values": [""]}
_HOUSEHOLD = {"word": "household", "identified_by": "home", "most": 4, "missing_values": [""]}
UNITS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("rows", {"word": "row"}, {"of": "rows"}),
    ("persons of at most 3 rows", _PERSON, {"of": "rows"}),
    (
        "households of at most 4 members",
        _HOUSEHOLD | {"link": "home_id"},
        {
            "of": "households",
            "households": "homes",
            "persons": "people",
            "key": "home",
            "link": "home_id",
            "person_key": "nr",
            "household_columns": ["tenure"],
            "person_columns": ["sex"],
            "larger": "reject",
            "min_members": 1,
            "max_members": 4,
        },
    ),
    (
        "persons of a panel of three waves",
        _PERSON | {"most": 1, "waves": ["2023", "2025"]},
        {
            "of": "panel",
            "person": "id",
            "waves": ["2023", "2024", "2025"],
            "wave": "year",
            "columns": {"work": {"2023": "sex"}},
            "takes_part": {},
            "ignore_waves": [],
            "repeated": "reject",
            "disagreeing": "reject",
        },
    ),
)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("another version", {"format": {"name": NAME, "version": DOCUMENT_VERSION + 1}}),
    ("a key of no meaning", {"seed": 7}),
    ("a column that identifies the unit", {"unit": _PERSON | {"identified_by": "sex"}}),
    ("stages that sum to more than the total", {"stages": {"measure": "1/49"}}),
    ("a unit of rows whose records are households", {"records": UNITS[2][2]}),
    ("an extension that does not exist", {"extensions": ["any"]}),
)


def documents() -> dict[str, dict[str, Any]]:
    """Return the content of every file, by its name."""
    return {
        "events.json": _file(
            [
                *(event_case(*case) for case in EVENTS),
                *(
                    event_case(name, neighbours, 1, event, asks, shares)
                    for name, neighbours, shares, event, asks in HOUSEHOLDS
                ),
            ]
        ),
        "releases.json": _file([release_case(*case) for case in RELEASES]),
        "curves.json": _file(curve_cases()),
        "accounts.json": _file([account_case(*case) for case in ACCOUNTS]),
        "receipts.json": _file([receipt_case(kind) for kind in ("pure", "gaussian", "mixed")]),
        "documents.json": _file(
            [
                *(document_case(name, unit, records) for name, unit, records in UNITS),
                *(refused_case(name, change) for name, change in REFUSED),
            ]
        ),
        "codes.json": _file([codes_case(rule, texts) for rule, texts in CODED]),
    }


def document_case(name: str, unit: Mapping[str, Any], records: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of a release, its hash, and who it protects in words."""
    columns: list[Mapping[str, Any]] = [SEX, AGE]
    if unit["word"] == "household":
        columns = [SEX | {"name": each} for each in ("tenure", "members", "sex", "other.sex")]
    document = DOCUMENT | {"unit": unit, "records": records, "columns": columns}
    protects = words_of(check_document(document))
    return {
        "name": name,
        "document": document,
        "sha256": document_hash(document),
        "protects": protects,
    }


def refused_case(name: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document that contradicts itself, and the key that its refusal names."""
    document = DOCUMENT | change
    try:
        check_document(document)
    except BadInput as error:
        return {"name": name, "document": document, "refused": str(error).split("'")[2]}
    raise AssertionError(name)


def codes_case(rule: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
    """Return the codes of texts by a column's rule; None for a text that is refused."""
    found = RuleEncoder(coding_rule(rule)).encode(pa.array(texts))
    bad = np.zeros(len(texts), bool) if found.bad is None else found.bad
    codes = [None if wrong else int(code) for code, wrong in zip(found.codes, bad, strict=True)]
    return {"name": rule["name"], "rule": rule, "texts": list(texts), "codes": codes}


def event_case(
    name: str,
    neighbours: Neighbours,
    rows: int,
    event: Event,
    asks: Mapping[str, Any],
    shares: int = 1,
) -> dict[str, Any]:
    """Return an event, its cost in every currency, and epsilon at delta where losses are known."""
    relation = Relation(neighbours, rows, shares)
    return {
        "name": name,
        "neighbours": neighbours,
        "max_rows": rows,
        **({"shares": shares} if shares > 1 else {}),
        "event": event.to_json(),
        "asks": dict(asks),
        "cost": {kind: _cost(kind, event) for kind in KINDS},
        "own_delta": str(event.own_delta()),
        "epsilon_at_delta": _losses([(event, asks)], relation),
    }


def release_case(
    name: str, neighbours: Neighbours, kind: Kind, charges: Sequence[Charge]
) -> dict[str, Any]:
    """Return the charges of one release, their sum, and what it implies."""
    spread = [(event, asks) for times, event, asks in charges for _ in range(times)]
    total = sum((Currency(kind, Fraction(1)).cost(event) for event, _ in spread), Fraction(0))
    # What a release reserves for choices on the curve is more than what it charges.
    currency = Currency(kind, total * (2 if kind == "mixed" else 1))
    return {
        "name": name,
        "neighbours": neighbours,
        "currency": kind,
        "charges": [
            {"times": times, "event": event.to_json(), "asks": dict(asks)}
            for times, event, asks in charges
        ],
        "cost": str(total),
        "reserved": str(currency.limit),
        "implied": {str(each): _implied(currency, each) for each in DELTAS},
        "epsilon_at_delta": _losses(spread, Relation(neighbours)),
    }


def curve_cases() -> list[dict[str, Any]]:
    """Return conversions of a total, in both directions."""
    found: list[dict[str, Any]] = []
    for rho in (Fraction(1, 1000), Fraction(3, 200), Fraction(1, 2)):
        for delta in DELTAS:
            found.append(
                {
                    "total": str(rho),
                    "delta": str(delta),
                    "zcdp_epsilon": _decimal(zcdp_epsilon(rho, delta)),
                    "gaussian_epsilon": _decimal(gaussian_epsilon(rho, delta)),
                }
            )
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(4)):
        found.append(
            {
                "epsilon": str(epsilon),
                "delta": str(DELTAS[-1]),
                "zcdp_total": _decimal(largest_limit("zcdp", epsilon, DELTAS[-1]), ROUND_FLOOR),
                "gaussian_total": _decimal(gaussian_limit(epsilon, DELTAS[-1]), ROUND_FLOOR),
            }
        )
    return found


def account_case(
    name: str, terms: Terms, releases: Sequence[tuple[Kind, str, str, str, int]]
) -> dict[str, Any]:
    """Return what the releases of an account promise, and their sum."""
    listed, used = [], Amount(Fraction(0), Fraction(0))
    for kind, text, delta_text, own_text, times in releases:
        epsilon, delta, own = Fraction(text), Fraction(delta_text), Fraction(own_text)
        currency = Currency(kind, largest_limit(kind, epsilon, delta - own), own)
        promised = terms.promised(currency, epsilon, delta)
        used += promised.times(times)
        listed.append(
            {
                "times": times,
                "epsilon": str(epsilon),
                "delta": str(delta),
                "currency": currency.to_json(),
                "promised": promised.to_json(),
            }
        )
    return {
        "name": name,
        "composition": terms.composition,
        "epsilon": str(terms.epsilon),
        "delta": str(terms.delta),
        "own_delta": str(terms.own_delta),
        "limit": terms.limit.to_json(),
        "releases": listed,
        "used": used.to_json(),
        "fits": used.within(terms.limit),
        "epsilon_of_used": _decimal(epsilon_of(terms, used)),
    }


def receipt_case(kind: Kind) -> dict[str, Any]:
    """Return the receipts of a small release, and every claim that follows from them."""
    epsilon, delta = Fraction(1), Fraction(0) if kind == "pure" else Fraction(1, 10**9)
    privacy = Privacy(epsilon=epsilon, delta=delta, neighbours="add-remove")
    currency = Currency(kind, largest_limit(kind, epsilon, delta))
    costs = {"one_way": currency.limit / 5, "measure": currency.limit * Fraction(7, 10)}
    if kind == "mixed":
        costs["select"] = currency.limit / 10
    chain: list[Receipt] = []

    def add(what: str, body: Mapping[str, object]) -> Receipt:
        chain.append(
            make_receipt(
                number=len(chain) + 1,
                kind=what,
                account="town",
                release="vectors",
                at="2026-11-20",
                body=body,
                previous=chain[-1].hash if chain else START,
            )
        )
        return chain[-1]

    add(
        "reserve",
        {
            "epsilon": str(epsilon),
            "delta": str(delta),
            "neighbours": "add-remove",
            "unit": "row",
            "plan": "0" * 64,
            **({"extensions": ["indif"]} if kind == "mixed" else {}),
            "sets": 1,
            "mode": "shared",
            "currency": currency.to_json(),
            "costs": {stage: str(cost) for stage, cost in costs.items()},
        },
    )
    charges: list[tuple[Event, Mapping[str, Any]]] = []
    spent = Fraction(0)

    def charge(stage: str, events: Sequence[tuple[str, Event, Mapping[str, Any]]]) -> None:
        nonlocal spent
        numbers = []
        for step, event, asks in events:
            cost = costs[stage] / len(events)
            body = {"batch": stage, "stage": stage, "step": step, "cost": str(cost)}
            receipt = add("charge", {**body, "event": event.to_json(), "asks": dict(asks)})
            numbers.append(receipt.number)
            charges.append((event, asks))
            spent += cost
        # Any noisy result: a commit binds it by its hash.
        result = result_hash((number, np.array([number, -1], dtype=np.int64)) for number in numbers)
        add("commit", {"batch": stage, "result": result})

    tables = {
        "one_way": ("sex", "age", "region", "income"),
        "measure": ("sex x age", "sex x income"),
    }
    if kind == "mixed":
        cost = costs["select"] / 2
        event = choice_event(currency, cost, 4)
        charge("select", [(f"edge {number}", event, PAIRS) for number in (1, 2)])
    for stage, steps in tables.items():
        event = currency.noise_event(costs[stage] / len(steps), l1=1, l2_squared=1)
        charge(stage, [(step, event, TABLE) for step in steps])
    add("settle", {"outcome": "finished", "spent": str(spent), "seen": True, "totals": []})
    stated = tightest(currency, privacy, charges) if kind != "mixed" else implied(currency, privacy)
    also = second(currency, privacy, charges) if kind != "mixed" else None
    return {
        "name": f"a release in {kind}",
        "fixed_beforehand": kind != "mixed",
        "receipts": [receipt.to_json() for receipt in chain],
        "claims": {
            "head": chain[-1].hash,
            "charged": str(spent),
            "enforced": {"epsilon": str(epsilon), "delta": str(delta)},
            "tightest": _stated(stated),
            "also": None if also is None else _stated(also),
        },
    }


def write() -> None:
    """Rewrite every file."""
    for name, document in documents().items():
        text = json.dumps(document, indent=1, ensure_ascii=False)
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")


def _file(cases: list[dict[str, Any]]) -> dict[str, Any]:
    return {"format": "dp-release test vectors", "version": VERSION, "cases": cases}


def _cost(kind: Kind, event: Event) -> str | None:
    try:
        return str(Currency(kind, Fraction(1)).cost(event))
    except ValueError:
        return None


def _losses(
    charges: Sequence[tuple[Event, Mapping[str, Any]]], relation: Relation
) -> dict[str, str] | None:
    try:
        found = {each: tightest_epsilon(charges, relation, each) for each in DELTAS}
    except ValueError:
        return None
    return {str(delta): _decimal(epsilon) for delta, epsilon in found.items()}


def _implied(currency: Currency, delta: Fraction) -> str:
    return _decimal(currency.epsilon(currency.limit, delta))


def _stated(guarantee: Any) -> dict[str, str]:
    return {
        "epsilon": str(guarantee.epsilon),
        "delta": str(guarantee.delta),
        "theorem": guarantee.theorem,
    }


def _decimal(value: Fraction, rounding: str = ROUND_CEILING) -> str:
    """Return a value rounded to 9 digits: the last digits of floats depend on the processor.

    An epsilon is rounded up, and a total down: both stay bounds.
    """
    context = Context(prec=9, rounding=rounding)
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


if __name__ == "__main__":
    write()
