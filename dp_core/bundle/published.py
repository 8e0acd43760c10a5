"""All that a bundle is made from, as `dp_core/bundle/writer.py` is handed it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dp_core.schema.definition import Schema
from dp_core.schema.privacy import Privacy
from dp_core.spec.release_spec import Mode
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.guarantee import Guarantee, implied
from dp_core.wall.ledger.ledger_position import Place, Total
from dp_core.wall.ledger.receipts import START, Receipt
from dp_core.wall.released import Released

REPORT = "report.html"
"""Name of the report for people."""


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
    def moment(self) -> str:
        """The moment of publication in UTC, to the second."""
        return self.created.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

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
