"""Options of `compare` and `release evaluate` that name columns of independent records."""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.errors import BadInput, nearest
from dp_core.lab.field_scores.file_scores import MOST_LEVELS
from dp_core.lab.measures.classification import MOST_CLASSES
from dp_core.tables.domain import Domain


def refuse_records_only(asked: Mapping[str, object], what: str) -> None:
    """Refuse options whose figures assume independent records, which linked tables do not have.

    Args:
        asked: The options, with what was typed; empty values are those that were left out.
        what: The linked tables, with a verb: `the release has linked tables`.

    Raises:
        BadInput: if one of the options was typed.
    """
    for option, value in asked.items():
        if value:
            raise BadInput(
                f"{option} needs independent records, but {what}, in which the members of a"
                f" household depend on each other; leave out {option}."
            )


def codes_of_column(option: str, domain: Domain, name: str, of: str) -> int:
    """Return the number of codes of the column that an option names.

    Args:
        option: The option, for messages.
        domain: Columns with their sizes.
        name: Name of the column.
        of: The file or release, for messages.

    Raises:
        BadInput: if there is no such column.
    """
    if name not in domain:
        raise BadInput(
            f"{option} {name!r} is not a modelled column of {of}.{nearest(name, domain.columns)}"
        )
    return domain.size((name,))


def check_target(domain: Domain, target: str, of: str) -> None:
    """Check a column that classifiers are to predict; the arguments are those of `codes_of_column`.

    Raises:
        BadInput: if it is no column, the only one, or has too few or too many codes.
    """
    size = codes_of_column("--target", domain, target, of)
    if not 2 <= size <= MOST_CLASSES:
        raise BadInput(
            f"--target {target!r} has {size:,} codes in {of}; a column to predict has 2 to"
            f" {MOST_CLASSES}."
        )
    if len(domain) == 1:
        raise BadInput(f"--target {target!r} is the only column of {of}.")


def check_group(domain: Domain, name: str, of: str) -> int:
    """Return the number of levels of a column of subgroups; see `codes_of_column`.

    Raises:
        BadInput: if it is no column, or has too few or too many levels.
    """
    size = codes_of_column("--group", domain, name, of)
    if not 2 <= size <= MOST_LEVELS:
        raise BadInput(
            f"--group {name!r} has {size:,} levels in {of}; a column of subgroups has 2 to"
            f" {MOST_LEVELS}."
        )
    return size
