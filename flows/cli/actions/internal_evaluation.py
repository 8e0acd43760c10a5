"""`evaluate`: scores, classifiers and attacks on a published release, against its file.

For staff in the home that made the release. As with `infer --against-confidential`, nothing is
charged and nothing of it is published: what is computed from the file goes to the internal folder
of the release, and not to the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source
from dp_core.errors import BadInput
from dp_core.lab.field_scores.file_scores import MOST_GROUPS, default_columns
from flows.cli.actions.internal_regression import release_with_file
from flows.comparison.record_options import (
    check_group,
    check_target,
    codes_of_column,
    refuse_records_only,
)
from tasks.run.earlier_releases import load_plan
from tasks.run.internal_evaluation import (
    AskedEvaluation,
    file_sections,
    linked_sections,
    write_evaluation,
)
from tasks.run.release_cleanup import reading_folder

if TYPE_CHECKING:
    from dp_core.lab.field_scores.file_scores import ScoredColumns
    from dp_core.plan.plan import Plan
    from dp_core.schema.definition import Schema
    from flows.cli.actions.internal_regression import ReleaseWithFile

_WHOSE = "the release"


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
    plan = _attacked(found) if attacks else None
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


def _attacked(found: ReleaseWithFile) -> Plan:
    """Return the plan that attacks carry out again in memory.

    Raises:
        BadInput: if the spec is no longer that of the release, or bins are chosen privately.
    """
    path = found.folder.remembered()[0]
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
