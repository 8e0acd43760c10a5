"""The stage `publish`: writes the bundle of a settled release."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_core.bundle.best_set import BEST, BestSet
from dp_core.errors import StageFailed
from tasks.run.public_files import read_released, synthetic_place
from tasks.run.release_cleanup import remove_unpublished
from tasks.run.release_run import Run
from tasks.stages.check_quality import records, tally_sets
from tasks.stages.stage_task import stage

_TALLIED, _WRITTEN = 0.2, 0.7
"""Parts of the stage, roughly, after the sets are counted and after the bundle is written."""


@stage("publish")
def publish(run: Run) -> None:
    """Write the bundle, which must verify before it gets its final name.

    Raises:
        StageFailed: if the release is not settled, or the bundle does not verify.
    """
    from dp_core.accounts.guarantee import second, tightest
    from dp_core.bundle.published import Published
    from dp_core.bundle.verification.claims import read_charge
    from dp_core.bundle.writer import write_bundle

    spec = run.spec
    settled = run.ledger.reservation(spec.release)
    if settled is None or settled.outcome is None:
        raise StageFailed(f"Release {spec.release!r} is not settled, so it is not published.")
    receipts = run.ledger.receipts(settled)
    central, sizes, off = _facts_of_sets(run)
    # A finished release has a charge for each of its draws.
    measuring = receipts if spec.measurements is None else spec.measurements.receipts
    charges = [read_charge(row) for row in measuring if row.kind == "charge"]
    currency = run.plan.currency if spec.measurements is None else spec.measurements.currency
    paid = (currency, spec.privacy, [(each.event, each.asks) for each in charges])
    fixed = run.plan.fixed_beforehand
    published = Published(
        release=spec.release,
        title=spec.schema.title,
        # The time of the settlement, so that writing the bundle again gives the same files.
        created=datetime.datetime.fromisoformat(receipts[-1].at).replace(tzinfo=datetime.UTC),
        privacy=spec.privacy,
        currency=currency,
        method=spec.method,
        plan=run.plan.document(),
        schema=run.schema,
        ledger=run.ledger.identity(),
        account=spec.account,
        receipts=receipts,
        tightest=tightest(*paid) if fixed else None,
        also=second(*paid) if fixed else None,
        totals=run.ledger.totals(settled),
        place=run.ledger.place(settled),
        revises=spec.revises,
        version=_version(run),
        released=read_released(run),
        sets=spec.sets,
        rows=sizes,
        off=off,
        best=central,
        ruled=_rule_fit(run),
        mode=spec.mode,
        seed=spec.seed,
        records=records(run),
        records_public=spec.privacy.relation.rows_public,
        checks=published_checks(run),
        not_met=_not_met(run),
        measurements=spec.measurements,
    )
    files = {number: synthetic_place(run, number) for number in spec.set_numbers}
    numbers = range(1, spec.sets + 1)
    tallies = tally_sets(run, numbers, lambda done: run.progress("publish", _TALLIED * done))

    def inspect(bundle: Path) -> None:
        run.progress("publish", _WRITTEN)
        _must_verify(bundle)

    write_bundle(
        run.out,
        published,
        synthetic=files,
        tallies=tallies,
        inspect=inspect,
        sign=run.ledger.sign,
    )


def tidy(run: Run) -> None:
    """Delete the files that a published release no longer needs; noisy results stay, as proof.

    Call it after the stage `publish` is marked as done. An interruption in between then only leaves
    files, which the next `resume` deletes, because `tidy` has a mark of its own.
    """
    remove_unpublished(run.folder, keep_confidential=run.keep_confidential)


def _version(run: Run) -> int:
    """Return the version: 1, or one more than that of the release that this one revises."""
    corrected: dict[str | None, Any] = {
        entry.receipt.release: entry.receipt.body.get("revises")
        for entry in run.ledger.entries(kinds=("reserve",))
    }
    version, name = 1, run.spec.revises
    while name is not None:
        version, name = version + 1, corrected.pop(name, None)
    return version


def published_checks(run: Run) -> Mapping[str, Any]:
    """Return the public and the charged figures in the form of the statement."""
    found = (run.folder.facts_of("check") or {}).get("checks")
    return found if isinstance(found, dict) else {"public": [], "charged": []}


def _facts_of_sets(run: Run) -> tuple[BestSet | None, tuple[int, ...], tuple[float, ...]]:
    """Return the best set, if any, and the rows and the deviations of the m sets."""
    spec = run.spec
    if not spec.sets:
        return None, (), ()
    rows, off = run.fact("synthesize", "rows"), run.fact("synthesize", "off")
    persons = run.fact("synthesize", "persons") if spec.schema.linked else []
    assert isinstance(rows, list)
    assert isinstance(off, list)
    assert isinstance(persons, list)
    if BEST not in spec.set_numbers:
        return None, tuple(rows), tuple(off)
    tvd: Any = (run.folder.facts_of("check") or {}).get("best")
    first = [each[0] if each else None for each in (persons, off)]
    best = BestSet(rows[0], persons=first[0], off=first[1], tvd=tvd)
    return best, tuple(rows[1:]), tuple(off[1:])


def _not_met(run: Run) -> Mapping[int, tuple[int, ...]] | None:
    """Return the expectations that each set does not meet; None if an older program checked it."""
    found = (run.folder.facts_of("check") or {}).get("expectations_not_met")
    if not isinstance(found, list):
        return None
    return {number: tuple(each) for number, each in zip(run.spec.set_numbers, found, strict=True)}


def _rule_fit(run: Run) -> dict[str, object] | None:
    """Return the fit of the tables of columns that rules name; None without rules or sets."""
    found = (run.folder.facts_of("check") or {}).get("rules")
    return found if isinstance(found, dict) else None


def _must_verify(bundle: Path) -> None:
    from dp_core.bundle.verification.verify import verify

    failed = [check for check in verify(bundle).checks if not check.passed]
    if failed:
        raise StageFailed(
            f"The bundle does not verify ({failed[0].name}: {failed[0].sentence}), so it was not"
            " published.",
            row="bundle-not-handed-over",
        )
