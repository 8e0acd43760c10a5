"""`release.json`: what was promised, what was done, and what is not covered."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from dp_core import registry
from dp_core.accounting.currency import Currency
from dp_core.accounting.statement import Guarantee, implied
from dp_core.bundle.accounting import accounting_json
from dp_core.bundle.citation import suggested
from dp_core.bundle.decision import decision_statement
from dp_core.canonical import canonical_json, digest
from dp_core.domain import Domain
from dp_core.errors import BadInput
from dp_core.inference.rules import Origin, inference_statement
from dp_core.ledger.places import Place, Total
from dp_core.ledger.receipts import START, Receipt
from dp_core.marginals import Released
from dp_core.method_options import plain_options
from dp_core.privacy import Privacy, Relation, unit_words
from dp_core.private_domain.resolving import statement as chosen
from dp_core.schema import Schema
from dp_core.spec import Mode

FORMAT_NAME = "dp-release bundle"
FORMAT_VERSION = 3
"""Raised also when a sentence of the statement gets other words: `verify` makes each of them again,
and would take the words of another version for a lie."""
STATEMENT = "release.json"
"""Name of the statement in the bundle."""

NOT_COVERED = (
    "That this release exists. A release can be stopped by the validation of the confidential file"
    " or by a person, so its existence says that in the end neither happened. The out-of-range"
    " rules clip and missing, instead of reject, avoid the first.",
    "The choice among draws. The operator is trusted not to repeat a noisy draw and keep the one"
    " they prefer, neither by deleting stored results nor by interrupting after reading one. The"
    " ledger shows attempts; it cannot prevent them.",
    "An internal look. Staff may compare the release with the confidential data, in a folder that"
    " is not published, and then publish it or withdraw it; it is never made again with other seeds"
    " or methods. That decision is outside epsilon. The section `decision` says whether the release"
    " was held for such a decision, and on which days the ledger recorded a look.",
    "Other releases. A person who is in several releases is protected by their sum. This statement"
    " covers what the ledger and account named here paid for, and claims no more.",
    "What the schema says. Levels, bounds, bin edges and impossible combinations are taken as"
    " public knowledge; where they were read off the confidential file they are not protected.",
    "What the population has in common. Conclusions about a group, drawn from this release, can be"
    " true of a member of the group whether or not that person's row was in the file.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Everything the bundle is made from, all of it public.

    Attributes:
        release: Name, unique in the ledger.
        title: For people.
        created: Moment of publication, with time zone.
        privacy: The guarantee asked for and enforced.
        currency: What the release paid in, and the reserved total.
        method: Name of the preset.
        plan: `Plan.document()`: the resolved spec and the arithmetic; its hash is in the ledger.
        schema: The schema, with the bins and levels that were chosen privately.
        ledger: Identity of the ledger.
        account: Account that paid.
        receipts: All rows of this release in the ledger so far, in their order.
        released: Everything that was measured, in the order of the file of noisy tables.
        sets: Number of synthetic sets, m.
        rows: Records of each synthetic set: one number for all, or one for each.
        mode: How the m sets were made.
        seed: Of post-processing.
        records: Number of records of the file: public, or estimated from noisy tables.
        records_public: Whether it is public (replace-one of rows), and so exact.
        tightest: Strongest guarantee known to hold; None: the one that the reserved total implies.
        also: What holds as well, of a purely private release, with a small delta; None for none.
        totals: Of the account that paid, and of those it stands within.
        place: Of the last receipt in the ledger's chain.
        revises: Release that this one corrects; its cost stays spent.
        version: 1, or one more than that of the release it corrects.
        off: Largest relative deviation of each set's weights from a public total; empty: there is
            none to meet.
        software: Names and versions; empty: those in use.
        note: Public facts of the selection.
        checks: Public and charged figures about quality, with their receipts.
    """

    release: str
    title: str
    created: datetime.datetime
    privacy: Privacy
    currency: Currency
    method: str
    plan: Mapping[str, object]
    schema: Schema
    ledger: str
    account: str
    receipts: tuple[Receipt, ...]
    released: tuple[Released, ...]
    sets: int
    rows: int | tuple[int, ...]
    mode: Mode
    seed: int
    records: float
    records_public: bool = False
    tightest: Guarantee | None = None
    also: Guarantee | None = None
    totals: tuple[Total, ...] = ()
    place: Place | None = None
    revises: str | None = None
    version: int = 1
    off: tuple[float, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)
    note: Mapping[str, object] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=lambda: {"public": [], "charged": []})

    def __post_init__(self) -> None:
        if self.created.tzinfo is None:
            raise ValueError("The moment of publication needs a time zone.")
        if self.sets < 1 or len(self.set_rows) != self.sets or min(self.set_rows) < 0:
            raise ValueError(f"A release of {self.sets} sets of {self.rows} rows is none.")
        if not (math.isfinite(self.records) and self.records >= 0):
            raise ValueError("The number of records is a number of at least 0.")

    @property
    def set_rows(self) -> tuple[int, ...]:
        """Records of each set, length `sets`."""
        return (self.rows,) * self.sets if isinstance(self.rows, int) else self.rows

    @property
    def enforced(self) -> Guarantee:
        """The guarantee that the ledger enforced."""
        return Guarantee(
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            theorem=self.currency.theorem,
        )

    @property
    def best(self) -> Guarantee:
        """The tightest guarantee known to hold."""
        return self.tightest or implied(self.currency, self.privacy)

    @property
    def head(self) -> str:
        """Hash of the last receipt; the ledger's chain of this release went that far."""
        return self.receipts[-1].hash if self.receipts else START


Sign: TypeAlias = Callable[[bytes], tuple[str, str] | None]
"""Gives the public key and the signature of a message, in hex; None where nothing is signed."""


def statement(
    published: Published,
    files: Mapping[str, Mapping[str, object]],
    sign: Sign = lambda _: None,
) -> dict[str, Any]:
    """Return the content of `release.json`.

    Args:
        published: The release.
        files: `file_record` of every other file, by its path in the bundle with forward slashes.
        sign: With the ledger's key.
    """
    privacy, best = published.privacy, published.best
    document: dict[str, Any] = {
        "format": {"name": FORMAT_NAME, "version": FORMAT_VERSION},
        "release": {
            "name": published.release,
            "title": published.title,
            "created": timestamp(published.created),
            "revises": published.revises,
            "version": published.version,
        },
        "guarantee": {
            "neighbours": privacy.neighbours,
            "unit": privacy.unit,
            **({"max_rows": privacy.max_rows} if privacy.unit != "row" else {}),
            "enforced": guarantee_json(published.enforced),
            "tightest": guarantee_json(best),
            "also": guarantee_json(published.also) if published.also else None,
            "in_words": in_words(
                best, privacy.neighbours, unit_words(privacy.unit, privacy.max_rows)
            ),
            "over_all_releases": [over_all(total) for total in published.totals],
            "not_covered": list(NOT_COVERED),
        },
        "method": {
            "name": published.method,
            "plan": plain(published.plan),
            "plan_sha256": digest(plain(published.plan)),
            "schema": plain(published.schema.document),
            "schema_sha256": digest(plain(published.schema.document)),
            "selection": plain(published.note),
            **_domain(published.schema),
        },
        "accounting": accounting_json(published.currency, privacy.relation, published.receipts),
        "software": dict(sorted((published.software or software_versions()).items())),
        "ledger": {
            "id": published.ledger,
            "account": published.account,
            "currency": {
                "kind": published.currency.kind,
                "limit": exact(published.currency.limit),
                "own_delta": exact(published.currency.own_delta),
            },
            "receipts": [receipt.to_json() for receipt in published.receipts],
            "head": published.head,
            "place": _place(published.place),
            "totals": [total_json(total) for total in published.totals],
        },
        "sets": {
            "m": published.sets,
            "rows": list(published.set_rows),
            "mode": published.mode,
            "seed": published.seed,
            "records": {
                "value": round(published.records, 3),
                "how": "public" if published.records_public else "estimated from noisy tables",
            },
            **_weights(published),
        },
        "inference": inference_statement(
            published.mode, published.sets, origin=origin_of(published.plan)
        ),
        "decision": decision_statement(
            plain(published.plan),
            published.receipts[-1].body if published.receipts else None,
            published.checks,
        ),
        "checks": plain(published.checks),
        "files": {path: dict(files[path]) for path in sorted(files)},
    }
    document["release"]["cite_as"] = suggested(document)
    signed = sign(statement_message(document))
    document["signature"] = signed and {"public_key": signed[0], "signature": signed[1]}
    document["sha256"] = digest(document)
    return document


def _weights(published: Published) -> dict[str, object]:
    from dp_core.bundle.weights import weights_statement

    stated = weights_statement(published.schema, published.off)
    return {} if stated is None else {"weights": stated}


def _domain(schema: Schema) -> dict[str, object]:
    """Return the bins and levels that were chosen privately, where there are any."""
    return {"domain": chosen(schema)} if schema.private else {}


def origin_of(plan: Mapping[str, Any]) -> Origin:
    """Return where the records of a plan's sets come from, by what its method releases."""
    spec = plan["spec"]
    name = spec["synthesize"].get("method")
    try:
        if name is not None:
            if registry.find("parametric", name).draws:
                return "drawn"
            # What noise left below 0 is cut off, and so every empty cell is raised on the average.
            return "pulled" if spec["synthesize"].get("negative") == "zero" else "modelled"
        # No option decides whether a selection gives tables, cells or records.
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
    """Return whether a reconstruction has what noise-aware sets would have switched off."""
    method = registry.find("reconstruction", options["method"])
    if not getattr(method, "pulls", False):
        return False
    without = plain(plain_options(method(**method.for_inference)))
    return any(options.get(name) != without[name] for name in method.for_inference)


def statement_message(document: Mapping[str, object]) -> bytes:
    """Return what the signature of a statement is of: all of it, and so the hash of every file."""
    body = {name: document[name] for name in document if name not in ("signature", "sha256")}
    return canonical_json(["dp-release statement", FORMAT_VERSION, digest(body)])


def render(document: Mapping[str, object]) -> bytes:
    """Return the one spelling of a statement: UTF-8, two spaces, a final newline."""
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    return (text + "\n").encode("utf-8")


def file_record(path: Path) -> dict[str, object]:
    """Return SHA-256 and size of a file.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": found, "bytes": path.stat().st_size}


def plain(value: Any) -> Any:
    """Return a value as JSON's own types: fractions and dates become their exact text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, datetime.date):
        return value.isoformat()
    if hasattr(value, "item"):  # a NumPy scalar
        return plain(value.item())
    return str(value)


def exact(value: Fraction) -> dict[str, object]:
    """Return a fraction as its exact text and its nearest decimal.

    >>> exact(Fraction(1, 4))
    {'exact': '1/4', 'decimal': 0.25}
    """
    return {"exact": str(value), "decimal": float(value)}


def timestamp(moment: datetime.datetime) -> str:
    """Return a moment in UTC, to the second."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_words(guarantee: Guarantee, neighbours: str, unit: str) -> str:
    """Return the guarantee as a sentence; `unit` in the words of `unit_words`."""
    differ = f"{unit} added or removed" if neighbours == "add-remove" else f"{unit} replaced"
    epsilon = float(guarantee.epsilon)
    factor = f"{math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:.4g}"
    sentence = (
        f"For any two files that differ by {differ}, whatever is concluded from this release is at"
        f" most {factor} times (e to the power {epsilon:.6g}) as likely from one as from the other"
    )
    if guarantee.delta:
        sentence += f", apart from a probability of {float(guarantee.delta):.3g}"
    return sentence + "."


def software_versions() -> dict[str, str]:
    """Return the versions on which the release depends."""
    versions = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name, distribution in (
        ("dp_release", "dp-release"),
        ("opendp", "opendp"),
        ("numpy", "numpy"),
        ("pyarrow", "pyarrow"),
    ):
        try:
            versions[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "unknown"
    return versions


def over_all(total: Total) -> str:
    """Return what a person is promised who is in several releases."""
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


def _place(place: Place | None) -> dict[str, object] | None:
    if place is None:
        return None
    return {
        "link": place.link,
        "public_key": place.public_key,
        "signature": place.signature,
    }


def guarantee_json(guarantee: Guarantee) -> dict[str, object]:
    """Return a guarantee as the statement has it."""
    return {
        "epsilon": exact(guarantee.epsilon),
        "delta": exact(guarantee.delta),
        "theorem": guarantee.theorem,
    }
