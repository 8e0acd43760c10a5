"""Names of steps and of the batches that are drawn together, as receipts have them."""

from __future__ import annotations

from collections.abc import Sequence

_INTERACTION = "interaction of "
_MOST_BYTES = 200  # with its suffix and that of a temporary file, a name has at most 255
_PREFIXES = ("set ", "round ", "trend ", _INTERACTION, "'", '"')


def table_step(clique: Sequence[str], replicate: int, round: int = 0) -> str:
    """Return the name of the step that measures a table; it is unique.

    >>> table_step(("age", "sex"), 0), table_step((), 2), table_step(("a x b",), 0, 3)
    ('age x sex', 'set 2: rows', "round 3: 'a x b'")
    """
    return step_name(
        " x ".join(_column_name(column) for column in clique) or "rows", replicate, round
    )


def interaction_step(clique: Sequence[str], replicate: int, round: int = 0) -> str:
    """Return the name of the step that measures an interaction; it is unique.

    >>> interaction_step(("age", "sex"), 2), table_step(("interaction of a", "b"), 0)
    ('set 2: interaction of age x sex', "'interaction of a' x b")
    """
    return step_name(f"{_INTERACTION}{table_step(clique, 0)}", replicate, round)


def step_name(name: str, replicate: int, round: int) -> str:
    """Return the full name of a step, with its set and its round of measuring.

    >>> step_name("indif", 0, 0), step_name("age", 2, 3)
    ('indif', 'set 2: round 3: age')
    """
    if round:
        name = f"round {round}: {name}"
    return f"set {replicate}: {name}" if replicate else name


def require_file_name(batch: str) -> None:
    """Raise ValueError unless a batch's name can be the name of a file in its own folder.

    >>> require_file_name("measure-2-3")
    """
    # privacy: a name with a folder in it would store a result where nobody looks for it.
    if "/" in batch or not batch.isprintable() or not 0 < len(batch.encode()) <= _MOST_BYTES:
        raise ValueError(f"{batch!r:.60} cannot be the name of a result's file.")


def _column_name(column: str) -> str:
    # A column named "a x b" must not look like the pair of a and b, nor "rows" like their number.
    taken = " x " in column or column == "rows" or column.startswith(_PREFIXES)
    return repr(column) if taken else column
