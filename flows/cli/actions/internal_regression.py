"""`infer --against-confidential`: a regression on the sets of a release, and on its file.

For staff in the home that made the release. Nothing is charged and nothing of it is published: what
is computed from the file goes to the release's internal folder, and not to the terminal: not even
whether there was a solution, nor by the names or the number of the files there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput
from flows.cli.command_parts import existing_ledger
from tasks.ledger.input_seals import is_sealed
from tasks.run.home import home_key
from tasks.run.internal_inference import write_comparison
from tasks.support.run_folder import RunFolder, make_folder

if TYPE_CHECKING:
    from dp_core.confidential.source import Source
    from dp_core.schema.definition import Schema
    from tasks.ledger.ledger import Ledger
    from tasks.ledger.reservations import Reservation


@dataclass(frozen=True, slots=True)
class Written:
    """What came of it.

    Attributes:
        release: Whose.
        page: In the internal folder; picture and numbers are beside it.
    """

    release: str
    page: Path


def against_file(home: Path, bundle_folder: Path, formula: str) -> Written:
    """Fit a formula to a published release's sets and to its confidential file.

    Args:
        home: Of the ledger that paid.
        bundle_folder: The release as it was published.
        formula: As typed.

    Raises:
        BadInput: if the folder is no release of this home, the formula will not do, or the file is
            not there any more as it was.

    Privacy:
        Looks at the file without noise: after the publication, so that nothing can be chosen by it,
        and for the internal folder only. What is returned does not depend on the file.
    """
    from dp_core.bundle.files.codebook import synthetic_path
    from dp_core.bundle.reading import read_bundle
    from dp_core.inference.formulas.comparable_formula import check_formula

    bundle = read_bundle(bundle_folder)
    claims = bundle.claims
    check_formula(formula, claims.schema)
    ledger = existing_ledger()
    reservation = ledger.reservation(claims.name)
    if reservation is None or tuple(ledger.receipts(reservation)) != claims.receipts:
        raise BadInput(
            f"Release {claims.name!r} was not made with the ledger of this home; its confidential"
            " file is with those who made it."
        )
    folder = RunFolder(home, claims.name, reservation.link)
    if not folder.exists():
        raise BadInput(
            f"Release {claims.name!r} was made in another home, or its folder is gone; go to the"
            " home that made it."
        )
    files = [bundle_folder / synthetic_path(number) for number in range(1, claims.sets + 1)]
    name = next(
        name
        for name in (f"inference-asked-{number}" for number in range(1, 1_000_000))
        if not (folder.internal / f"{name}.json").exists()
    )
    with confidential_folder(folder):
        page = write_comparison(
            folder.internal,
            _same_source(home, ledger, reservation, folder, claims.schema),
            claims.schema,
            files,
            [formula],
            rule=bundle.rule,
            name=name,
        )
    return Written(claims.name, page)


@contextmanager
def confidential_folder(folder: RunFolder) -> Iterator[None]:
    """Have a finished release's confidential folder, for a table's snapshot; it goes if it went."""
    kept = folder.confidential.is_dir()
    make_folder(folder.confidential)
    try:
        yield
    finally:
        if not kept:
            folder.remove_confidential()


def _same_source(
    home: Path, ledger: Ledger, reservation: Reservation, folder: RunFolder, schema: Schema
) -> Source:
    """Return the confidential file as it was when the release was made.

    Raises:
        BadInput: if it is not where the spec has it, or is another file now.
    """
    from dp_core.confidential.source import keyed_digest
    from dp_core.spec.reading.spec_file import load_spec
    from tasks.inputs.open_input import open_input

    spec = load_spec(folder.remembered()[0])
    source = open_input(spec, schema, folder.confidential)
    key = home_key(home, ledger)
    digest = keyed_digest(source, key)
    bound = ledger.entries(kinds=("input",), reservation=reservation.position)
    if not any(entry.about == digest and is_sealed(entry, key) for entry in bound):
        raise BadInput(
            f"The data of release {reservation.release!r} are not those that it was made of any"
            " more; put that file back where the spec has it."
        )
    return source
