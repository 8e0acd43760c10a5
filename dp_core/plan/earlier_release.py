"""An earlier release whose committed noisy results another release uses instead of measuring.

The results are public values that were paid for, so whatever is computed from them costs nothing
and has the guarantee of the earlier release. The new release never opens the confidential data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dp_core.accounts.ledger_position import Place
from dp_core.kernel.canonical import digest
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.account_terms import UsedMeasurements
from dp_core.kernel.ledger.receipts import Receipt


@dataclass(frozen=True, slots=True)
class EarlierRelease:
    """A finished release of the same account, as the ledger records it. Public values only.

    Attributes:
        release: Its name.
        account: Account that paid for it.
        plan: Its `Plan.document()`; the ledger has its hash.
        receipts: All its receipts, in order.
        place: Place of its last receipt in the ledger's chain, with the signature; None if unknown.
    """

    release: str
    account: str
    plan: Mapping[str, Any]
    receipts: tuple[Receipt, ...]
    place: Place | None = None

    @property
    def used(self) -> UsedMeasurements:
        """Its name and the hash of its last receipt, as a reservation states them."""
        return UsedMeasurements(self.release, self.receipts[-1].hash)

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its resolved spec."""
        resolved: Mapping[str, Any] = self.plan["spec"]
        return resolved

    @property
    def currency(self) -> Currency:
        """Its currency, with the total that it reserved."""
        return Currency(
            self.plan["currency"]["kind"],
            exact_fraction(self.plan["currency"]["limit"]),
            exact_fraction(self.plan["currency"]["own_delta"]),
        )

    def document(self) -> dict[str, object]:
        """Return what the plan of a release that uses its results states."""
        return {**asdict(self.used), "plan": digest(dict(self.plan))}
