"""Everything that a bundle is made from; the argument of `writer.write_bundle`."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dp_core.accounts.guarantee import Guarantee, implied, theorem_of
from dp_core.accounts.ledger_position import Place, Total
from dp_core.accounts.requested import Privacy
from dp_core.bundle.best_set import BEST, BestSet
from dp_core.client.released import Released
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.ledger.receipts import START, Receipt
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Schema

REPORT = "report.html"
"""Name of the report for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Everything that a bundle is made from. All of it is public.

    Attributes:
        release: Name of the release, unique in the ledger.
        title: Title for people.
        created: Moment of publication, with time zone.
        privacy: The requested guarantee, which the ledger enforced.
        currency: Currency of the release that measured, and the total that it reserved.
        method: Name of the preset.
        plan: `Plan.document()`: the resolved spec and its costs; its hash is in the ledger.
        schema: The schema, including bins and levels that were chosen privately.
        ledger: Identity of the ledger.
        account: Account that paid.
        receipts: All receipts of this release so far, in order.
        released: Everything that was measured, in the order of the file of noisy tables.
        sets: Number of synthetic sets, m; 0 for a release of tables only.
        rows: Records of each synthetic set: one number for all, or one for each. Of linked tables
            they are households.
        best: The best set; None (the default) if there is none.
        persons: Persons of each synthetic set of linked tables; empty (the default) otherwise.
        mode: How the m sets were made.
        seed: Seed of post-processing.
        records: Number of records of the file: public, or estimated from noisy tables.
        records_public: Whether that number is public and exact (replace-one of rows).
        tightest: Strongest guarantee known; None for the one that the reserved total implies.
        also: Second guarantee, with a small delta, of a purely private release; None for none.
        totals: Totals of the account that paid and of the accounts that contain it.
        place: Position of the last receipt in the ledger's chain.
        revises: Release that this one corrects; its budget remains spent.
        version: 1, or one more than the version of the corrected release.
        off: Largest relative deviation of each set's weights from a public total; empty without
            public totals.
        ruled: Fit of the tables of columns that rules name
            (`dp_core.bundle.quality.table_fit.ruled_tables`); None without rules between columns.
        software: Names and versions; by default those in use.
        checks: Public and charged quality figures, with their receipts.
        measurements: The earlier release whose noisy tables are used, which paid for them; None if
            this release measured.
        not_met: By number of each set, the numbers of the expectations that it does not meet
            (`dp_core.schema.expectations.suite.rules_of`); None if the sets were not judged.
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
    ruled: Mapping[str, object] | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, Any] = field(default_factory=lambda: {"public": [], "charged": []})
    measurements: EarlierRelease | None = None
    persons: tuple[int, ...] = ()
    best: BestSet | None = None
    not_met: Mapping[int, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        if self.created.tzinfo is None:
            raise ValueError("The moment of publication needs a time zone.")
        if len(self.set_rows) != self.sets or any(rows < 0 for rows in self.set_rows):
            raise ValueError(f"{self.sets} sets of {self.rows} rows do not make a release.")
        if not (math.isfinite(self.records) and self.records >= 0):
            raise ValueError("The number of records must be a finite number of at least 0.")

    @property
    def written(self) -> Schema:
        """The schema as written, with what was chosen privately."""
        return self.schema.coarse or self.schema

    @property
    def moment(self) -> str:
        """The moment of publication in UTC, to the second."""
        return self.created.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the sets: 1 to m, after the best set, if any."""
        return range(1 if self.best is None else BEST, self.sets + 1)

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
            theorem=theorem_of(self.currency),
        )

    @property
    def guarantee(self) -> Guarantee:
        """The tightest guarantee known to hold."""
        return self.tightest or implied(self.currency, self.privacy)

    @property
    def reserved(self) -> Currency:
        """What this release reserved: nothing if it uses the tables of an earlier one."""
        if self.measurements is None:
            return self.currency
        return Currency(self.currency.kind, Fraction(0))

    @property
    def paid(self) -> tuple[Receipt, ...]:
        """Charges of the release that measured, which paid for the noisy tables."""
        rows = self.receipts if self.measurements is None else self.measurements.receipts
        return tuple(row for row in rows if row.kind == "charge")

    @property
    def spent(self) -> Mapping[str, Fraction]:
        """What was charged in each stage, in the order of the stages."""
        found: dict[str, Fraction] = {}
        for row in self.paid:
            stage = str(row.body["stage"])
            found[stage] = found.get(stage, Fraction(0)) + Fraction(str(row.body["cost"]))
        return found

    @property
    def head(self) -> str:
        """Hash of the last receipt."""
        return self.receipts[-1].hash if self.receipts else START
