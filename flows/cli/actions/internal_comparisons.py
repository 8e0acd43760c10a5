"""`infer --against-confidential` and `release evaluate`: a published release beside its file.

For staff in the home that made the release. Nothing is charged and nothing of it is published: what
is computed from the file goes to the release's internal folder, and not to the terminal: not even
whether there was a solution, nor by the names or the number of the files there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source
from dp_core.errors import BadInput
from dp_core.lab.field_scores.file_scores import MOST_GROUPS, default_columns
from flows.cli.command_parts import existing_ledger
from flows.comparison.comparison_request import (
    check_group,
    check_target,
    codes_of_column,
    refuse_records_only,
)
from tasks.confidential.internal_evaluation import (
    AskedEvaluation,
    file_sections,
    linked_sections,
    write_evaluation,
)
from tasks.confidential.internal_inference import write_comparison
from tasks.ledger.input_seals import is_sealed
from tasks.run.earlier_releases import load_plan, load_release
from tasks.run.home import home_key
from tasks.run.release_cleanup import kept_files, reading_folder
from tasks.support.run_folder import RunFolder

if TYPE_CHECKING:
    from dp_core.bundle.reading import Bundle
    from dp_core.bundle.verification.claims import Claims
    from dp_core.lab.field_scores.file_scores import ScoredColumns
    from dp_core.plan.plan import Plan
    from dp_core.schema.definition import Schema
    from tasks.ledger.ledger import Ledger
    from tasks.ledger.reservations import Reservation

_WHOSE = "the release"


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

    found = release_with_file(home, bundle_folder)
    claims, bundle = found.claims, found.bundle
    if claims.schema.linked is not None:
        raise BadInput(
            "The release has linked tables, whose regressions are not compared with the"
            " confidential files yet; leave out --against-confidential."
        )
    check_formula(formula, claims.schema)
    assert bundle.rule is not None  # it has sets
    files = [bundle_folder / synthetic_path(number) for number in range(1, claims.sets + 1)]
    name = found.unused_name("inference-asked")
    with reading_folder(found.folder) as work:
        source = found.source(work)
        assert isinstance(source, Source)  # not linked tables
        page = write_comparison(
            found.folder.internal,
            source,
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

    def source(self, work: Path) -> Source | LinkedSource:
        """Return the confidential file, or both linked tables, as when the release was made.

        Args:
            work: Folder for a copy of an object or a table, unless the release kept its own.

        Raises:
            BadInput: if it is no longer where the spec has it, or has changed.
        """
        from dp_core.confidential.source import keyed_digest
        from tasks.inputs.open_input import open_input

        path = self.folder.recorded_paths()[0]
        spec, linked = load_release(path), self.claims.schema.linked
        if (spec.schema.linked is None) != (linked is None):
            has, named = (
                ("a single table", "two") if linked is None else ("two linked tables", "one")
            )
            raise BadInput(
                f"Release {self.claims.name!r} is of {has}, but the spec {path} now names {named};"
                " undo this change of the spec."
            )
        copies = self.folder.confidential if kept_files(self.folder) else work
        source = open_input(spec, self.claims.schema, copies)
        key = home_key(self.home, self.ledger)
        digest = keyed_digest(source, key)
        # The entries before the last are of parts of the data.
        position = self.reservation.position
        bound = self.ledger.entries(kinds=("input",), reservation=position)[-1:]
        if not any(entry.about == digest and is_sealed(entry, key) for entry in bound):
            raise BadInput(
                f"The data of release {self.claims.name!r} are not those that it was made of any"
                " more; put that file back where the spec has it."
            )
        return source


def release_with_file(home: Path, bundle_folder: Path) -> ReleaseWithFile:
    """Return a published release of this home that opened data and has sets.

    Args:
        home: The home that made the release.
        bundle_folder: The published bundle.

    Raises:
        BadInput: if the folder is no such release.
    """
    from dp_core.bundle.reading import read_bundle
    from dp_core.bundle.verification.claims import Claims
    from dp_core.inference.combining_rules import NO_SETS

    bundle = read_bundle(bundle_folder)
    claims = bundle.claims
    assert isinstance(claims, Claims)  # only a release in memory has other facts
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


def evaluate_release(
    home: Path,
    bundle_folder: Path,
    *,
    by: Sequence[str] = (),
    targets: Sequence[str] = (),
    quasi: Sequence[str] = (),
    line: str | None = None,
    attacks: bool = False,
) -> tuple[str, Path]:
    """Evaluate a published release against its confidential file.

    Args:
        home: The home that made the release.
        bundle_folder: The published bundle.
        by: Columns whose subgroups are compared; by default a public rule chooses some.
        targets: Columns that classifiers predict; none by default.
        quasi: Quasi-identifiers of the apparent matches; the first four columns by default.
        line: Regression line to compare by group, such as `income ~ age`; by default of the two
            ordered columns with the strongest correlation.
        attacks: Whether the method is attacked; it takes minutes.

    Returns:
        The name of the release and the page with the result, in its internal folder.

    Raises:
        BadInput: if the folder is no release of this home, an option is invalid, or the file is
            missing or changed.

    Privacy:
        The release is already published, so the result cannot influence it. What is returned does
        not depend on the file.
    """
    from dp_core.bundle.files.codebook import synthetic_path

    found = release_with_file(home, bundle_folder)
    claims, bundle = found.claims, found.bundle
    if claims.schema.linked is not None:
        asked = {"group": by, "target": targets, "quasi": quasi, "line": line, "attacks": attacks}
        typed = {f"--{option}": value for option, value in asked.items()}
        refuse_records_only(typed, "the release has linked tables")
        return claims.name, _evaluate_linked(found, bundle_folder)
    own = claims.schema.coarse or claims.schema
    columns = _columns(own, by=by, quasi=quasi, line=line)
    for target in targets:
        check_target(own.domain, target, _WHOSE)
    plan = _plan_to_attack(found) if attacks else None
    name = found.unused_name("evaluation")
    asked_for = AskedEvaluation(
        schema=claims.schema,
        sets=[bundle_folder / synthetic_path(number) for number in range(1, claims.sets + 1)],
        released=bundle.measured,
        records=bundle.records,
        rows=claims.records,
        columns=columns,
        targets=targets,
        attacked=plan,
    )
    with reading_folder(found.folder) as work:
        source = found.source(work)
        assert isinstance(source, Source)  # not linked tables
        page = write_evaluation(
            found.folder.internal,
            own.title,
            lambda: file_sections(work, source, asked_for),
            name=name,
        )
    return claims.name, page


def _evaluate_linked(found: ReleaseWithFile, bundle_folder: Path) -> Path:
    """Evaluate a release of linked tables; return the page."""
    name, claims = found.unused_name("evaluation"), found.claims
    with reading_folder(found.folder) as work:
        source = found.source(work)
        assert isinstance(source, LinkedSource)
        return write_evaluation(
            found.folder.internal,
            claims.schema.title,
            lambda: linked_sections(source, claims.schema, bundle_folder, claims.sets),
            name=name,
        )


def _columns(
    schema: Schema, *, by: Sequence[str], quasi: Sequence[str], line: str | None
) -> ScoredColumns:
    columns = default_columns(schema.domain)
    sizes = {name: check_group(schema.domain, name, _WHOSE) for name in by}
    for name in quasi:
        codes_of_column("--quasi", schema.domain, name, _WHOSE)
    if quasi and len({*quasi}) == len(schema.domain):
        raise BadInput("--quasi names every column; leave out those that a match is judged by.")
    if by:
        groups = tuple(name for name, size in sizes.items() if size <= MOST_GROUPS)
        columns = replace(columns, by=tuple(sizes), groups=groups[:1])
    if quasi:
        columns = replace(columns, quasi=tuple(dict.fromkeys(quasi)))
    if line is not None:
        outcome, predictor = _line(schema, line)
        columns = replace(columns, outcome=outcome, predictor=predictor)
    return columns


def _line(schema: Schema, text: str) -> tuple[str, str]:
    sides = [part.strip() for part in text.split("~")]
    if len(sides) != 2 or not all(sides):
        raise BadInput(f"--line is OUTCOME ~ PREDICTOR, such as 'income ~ age', not {text!r:.80}.")
    for name in sides:
        codes_of_column("--line", schema.domain, name, _WHOSE)
        if not schema.column(name).type.ordered:
            raise BadInput(f"--line: {name!r} is a category; a line needs numbers, dates or ranks.")
    if sides[0] == sides[1]:
        raise BadInput("--line: outcome and predictor are the same column.")
    return sides[0], sides[1]


def _plan_to_attack(found: ReleaseWithFile) -> Plan:
    """Return the plan that attacks carry out again in memory.

    Raises:
        BadInput: if the spec is no longer that of the release, or bins are chosen privately.
    """
    path = found.folder.recorded_paths()[0]
    plan = load_plan(path)
    if plan.hash != found.reservation.plan:
        raise BadInput(
            f"--attacks carries out the plan of release {found.claims.name!r} again in memory, but"
            f" the spec {path}, its schema or the program changed since; undo the change, or leave"
            " out --attacks."
        )
    if plan.spec.schema.private:
        column = plan.spec.schema.private[0].name
        raise BadInput(
            f"--attacks needs the same bins and levels in every file, but those of {column!r} are"
            " chosen privately; leave out --attacks."
        )
    return plan
