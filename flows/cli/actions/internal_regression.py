"""`infer --against-confidential`: a regression on the sets of a release, and on its file.

For staff in the home that made the release. Nothing is charged and nothing of it is published: what
is computed from the file goes to the release's internal folder, and not to the terminal: not even
whether there was a solution, nor by the names or the number of the files there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source
from dp_core.errors import BadInput
from flows.cli.command_parts import existing_ledger
from tasks.ledger.input_seals import is_sealed
from tasks.run.home import home_key
from tasks.run.internal_inference import write_comparison
from tasks.run.release_cleanup import kept_files, reading_folder
from tasks.support.run_folder import RunFolder

if TYPE_CHECKING:
    from dp_core.bundle.reading import Bundle
    from dp_core.bundle.verification.claims import Claims
    from dp_core.schema.definition import Schema
    from tasks.ledger.ledger import Ledger
    from tasks.ledger.reservations import Reservation


def against_file(home: Path, bundle_folder: Path, formula: str) -> tuple[str, Path]:
    """Fit a formula to a published release's sets and to its confidential file.

    Args:
        home: The home that made the release.
        bundle_folder: The published bundle.
        formula: The formula as typed.

    Returns:
        The name of the release and the page with the result, in its internal folder; the picture
        and the numbers are beside the page.

    Raises:
        BadInput: if the folder is no release of this home, the formula is invalid, or the file is
            missing or changed.

    Privacy:
        The result is computed from the file without noise, and is written to the internal folder
        only. The release is already published, so the result cannot influence it. What is returned
        does not depend on the file.
    """
    from dp_core.bundle.files.codebook import synthetic_path
    from dp_core.inference.formulas.formula import check_formula

    def check(schema: Schema) -> None:
        if schema.linked is not None:
            raise BadInput(
                "The release has linked tables, whose regressions are not compared with the"
                " confidential files yet; leave out --against-confidential."
            )
        check_formula(formula, schema)

    found = release_with_file(home, bundle_folder, check)
    claims, bundle = found.claims, found.bundle
    assert bundle.rule is not None  # it has sets
    files = [bundle_folder / synthetic_path(number) for number in range(1, claims.sets + 1)]
    name = found.unused_name("inference-asked")
    with reading_folder(found.folder) as work:
        page = write_comparison(
            found.folder.internal,
            found.source(work),
            claims.schema,
            files,
            [formula],
            rule=bundle.rule,
            name=name,
        )
    return claims.name, page


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseWithFile:
    """A published release in the home that made it, with the way to its confidential file.

    Attributes:
        home: The home.
        bundle: The published bundle.
        claims: Claims of its statement.
        ledger: Ledger of the home.
        reservation: The release in the ledger.
        folder: Folder of its run.
    """

    home: Path
    bundle: Bundle
    claims: Claims
    ledger: Ledger
    reservation: Reservation
    folder: RunFolder

    def unused_name(self, base: str) -> str:
        """Return the name of new files in the internal folder, without suffix."""
        return next(
            name
            for name in (f"{base}-{number}" for number in range(1, 1_000_000))
            if not (self.folder.internal / f"{name}.json").exists()
        )

    def source(self, work: Path) -> Source:
        """Return the confidential file as it was when the release was made.

        Args:
            work: Folder for a copy of an object or a table, unless the release kept its own.

        Raises:
            BadInput: if it is no longer where the spec has it, or has changed.
        """
        source = self._same(work)
        assert isinstance(source, Source)
        return source

    def linked_source(self, work: Path) -> LinkedSource:
        """Return both confidential tables; see `source`, which is for a single table."""
        source = self._same(work)
        assert isinstance(source, LinkedSource)
        return source

    def _same(self, work: Path) -> Source | LinkedSource:
        copies = self.folder.confidential if kept_files(self.folder) else work
        return _same_source(self, copies)


def release_with_file(
    home: Path, bundle_folder: Path, check: Callable[[Schema], object] | None = None
) -> ReleaseWithFile:
    """Return a published release of this home that opened data and has sets.

    Args:
        home: The home that made the release.
        bundle_folder: The published bundle.
        check: Called with its schema before the ledger is opened; None (the default) for no check.

    Raises:
        BadInput: if the folder is no such release.
    """
    from dp_core.bundle.reading import read_bundle
    from dp_core.bundle.verification.claims import Claims
    from dp_core.inference.combining_rules import NO_SETS

    bundle = read_bundle(bundle_folder)
    claims = bundle.claims
    assert isinstance(claims, Claims)  # only a release in memory has other facts
    if check is not None:
        check(claims.schema)
    ledger = existing_ledger()
    reservation = ledger.reservation(claims.name)
    if reservation is None or tuple(ledger.receipts(reservation)) != claims.receipts:
        raise BadInput(
            f"Release {claims.name!r} was not made with the ledger of this home; its confidential"
            " file is with those who made it."
        )
    if reservation.measurements is not None:
        raise BadInput(
            f"Release {claims.name!r} uses the tables of release"
            f" {reservation.measurements.release!r} and opened no data, so its sets are not"
            f" compared with them; name the bundle of {reservation.measurements.release!r}."
        )
    folder = RunFolder(home, claims.name, reservation.link)
    if not folder.exists():
        raise BadInput(
            f"Release {claims.name!r} was made in another home, or its folder is gone; go to the"
            " home that made it."
        )
    if bundle.rule is None:
        raise BadInput(NO_SETS)
    return ReleaseWithFile(home, bundle, claims, ledger, reservation, folder)


def _same_source(release: ReleaseWithFile, copies: Path) -> Source | LinkedSource:
    """Return the confidential files as they were when the release was made.

    Raises:
        BadInput: if they are no longer where the spec has them, or have changed.
    """
    from dp_core.confidential.source import keyed_digest
    from tasks.inputs.open_input import open_input
    from tasks.run.earlier_releases import load_release

    ledger, reservation = release.ledger, release.reservation
    path = release.folder.remembered()[0]
    spec, linked = load_release(path), release.claims.schema.linked
    if (spec.schema.linked is None) != (linked is None):
        has, named = ("a single table", "two") if linked is None else ("two linked tables", "one")
        raise BadInput(
            f"Release {reservation.release!r} is of {has}, but the spec {path} now names {named};"
            " undo this change of the spec."
        )
    source = open_input(spec, release.claims.schema, copies)
    key = home_key(release.home, ledger)
    digest = keyed_digest(source, key)
    # The entries before the last are of parts of the data.
    bound = ledger.entries(kinds=("input",), reservation=reservation.position)[-1:]
    if not any(entry.about == digest and is_sealed(entry, key) for entry in bound):
        raise BadInput(
            f"The data of release {reservation.release!r} are not those that it was made of any"
            " more; put that file back where the spec has it."
        )
    return source
