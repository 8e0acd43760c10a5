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

from dp_core.errors import BadInput, nearest
from dp_core.lab.field_scores.file_scores import MOST_GROUPS, MOST_LEVELS, default_columns
from dp_core.lab.measures.classification import MOST_CLASSES
from flows.cli.actions.internal_regression import release_with_file
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
        _refuse_records_only([f"--{option}" for option, value in asked.items() if value])
        return claims.name, _evaluate_linked(found, bundle_folder)
    own = claims.schema.coarse or claims.schema
    columns = _columns(own, by=by, quasi=quasi, line=line)
    _check_targets(own, targets)
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
        page = write_evaluation(
            found.folder.internal,
            own.title,
            lambda: file_sections(work, source, asked_for),
            name=name,
        )
    return claims.name, page


def _refuse_records_only(options: Sequence[str]) -> None:
    """Refuse options whose results assume independent records, which linked tables do not have."""
    for option in options:
        raise BadInput(
            f"{option} needs independent records, but the release has linked tables, in which the"
            f" members of a household depend on each other; leave out {option}."
        )


def _evaluate_linked(found: ReleaseWithFile, bundle_folder: Path) -> Path:
    """Evaluate a release of linked tables; return the page."""
    name, claims = found.unused_name("evaluation"), found.claims
    with reading_folder(found.folder) as work:
        source = found.linked_source(work)
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
    for name in by:
        size = _size("--group", schema, name)
        if not 2 <= size <= MOST_LEVELS:
            raise BadInput(
                f"--group {name!r} has {size:,} levels; a column of subgroups has 2 to"
                f" {MOST_LEVELS}."
            )
    for name in quasi:
        _size("--quasi", schema, name)
    if quasi and len({*quasi}) == len(schema.domain):
        raise BadInput("--quasi names every column; leave out those that a match is judged by.")
    if by:
        groups = tuple(name for name in by if _size("--group", schema, name) <= MOST_GROUPS)
        columns = replace(columns, by=tuple(dict.fromkeys(by)), groups=groups[:1])
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
        _size("--line", schema, name)
        if not schema.column(name).type.ordered:
            raise BadInput(f"--line: {name!r} is a category; a line needs numbers, dates or ranks.")
    if sides[0] == sides[1]:
        raise BadInput("--line: outcome and predictor are the same column.")
    return sides[0], sides[1]


def _check_targets(schema: Schema, targets: Sequence[str]) -> None:
    for name in targets:
        size = _size("--target", schema, name)
        if not 2 <= size <= MOST_CLASSES:
            raise BadInput(
                f"--target {name!r} has {size:,} codes; a column to predict has 2 to"
                f" {MOST_CLASSES}."
            )
    if targets and len(schema.domain) == 1:
        raise BadInput(f"--target {targets[0]!r} is the only column.")


def _size(option: str, schema: Schema, name: str) -> int:
    domain = schema.domain
    if name not in domain:
        raise BadInput(
            f"{option} {name!r} is not a modelled column of the release."
            f"{nearest(name, domain.columns)}"
        )
    return domain.size((name,))


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
