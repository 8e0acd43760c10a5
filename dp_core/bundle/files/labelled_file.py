"""A table of a set as a file for Stata or SPSS, with its names, value labels and limits."""

from __future__ import annotations

import errno
import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.errors import BadInput
from dp_core.schema.definition import Column

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CHARACTERS = 32
"""Most characters of a name in Stata; SPSS allows more."""
LARGEST_LONG = 2_147_483_620
"""Largest whole number that Stata stores as one; larger ones become doubles."""
RESERVED = frozenset(
    {
        *("byte", "double", "float", "if", "in", "int", "long", "using", "with"),
        *("all", "and", "by", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "to"),
    }
)
"""Words that Stata or SPSS does not take for a name; Stata neither takes `strL` or `str12`."""
_LIMITS = {".dta": (80, 320, 32_000, 80), ".sav": (256, 256, 120, 64)}
"""By ending: most characters and bytes of a column's label, bytes of a value's and the file's."""


def valid_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name that Stata and SPSS allow for each column, unique without regard to case.

    A name that is valid stays as it is.

    >>> valid_names(["hours per week", "Hours_per_week", "2nd", "if"])
    {'Hours_per_week': 'Hours_per_week', 'hours per week': 'hours_per_week_2', '2nd': 'v_2nd', \
'if': 'v_if'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(names, key=lambda each: _valid(each) != each):
        made, number = _valid(name), 1
        while made.lower() in taken:
            number += 1
            ending = f"_{number}"
            made = _valid(name)[: MOST_CHARACTERS - len(ending)] + ending
        taken.add(made.lower())
        found[name] = made
    return found


def _valid(name: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    word = re.sub(r"\W+", "_", ascii_only).strip("_")
    if not word[:1].isalpha() or word.lower() in RESERVED or re.fullmatch(r"str(L|\d+)", word):
        word = f"v_{word}"
    return word[:MOST_CHARACTERS].rstrip("_")


def level_numbers(column: Column) -> dict[str, int]:
    """Return the number that stands for each label of a category or ordinal.

    It is the code in the schema if that is a whole number. Other levels of a category get the
    numbers after the largest. An ordinal whose codes do not ascend is numbered from 1.

    Args:
        column: A column with levels.
    """
    levels = column.in_sets.levels
    texts = {level.label: level.text for level in reversed(levels)}  # the first of equal labels
    whole = {int(text): name for name, text in texts.items() if re.fullmatch("-?[0-9]{1,9}", text)}
    stated = {label: number for number, label in whole.items()}
    free = itertools.count(max({0, *whole}) + 1)
    labels = dict.fromkeys(level.label for level in levels)
    found = {label: stated[label] if label in stated else next(free) for label in labels}
    if column.type.ordered and [*found.values()] != sorted(found.values()):
        return {label: place for place, label in enumerate(labels, start=1)}
    return found


def write_labelled(path: Path, table: pa.Table, columns: Mapping[str, Column], about: str) -> None:
    """Write a table of a set as a Stata or SPSS file with labels of columns and values.

    Levels become the numbers of `level_numbers`, missing values are system missing.

    Args:
        path: File to write; its ending, `.dta` or `.sav`, says which.
        table: The table, as a bundle has it.
        columns: The columns of the schema by name; keys of linked tables are not among them.
        about: What the file says of itself.

    Raises:
        BadInput: if the package pyreadstat is not installed.
        OSError: if the file cannot be written.
    """
    import pandas as pd

    writer, names = pyreadstat(), valid_names(table.column_names)
    characters, size, value_size, file_size = _LIMITS[path.suffix]
    data: dict[str, Any] = {}
    labels: dict[str, str] = {}
    values: dict[str, dict[int, str]] = {}
    measures = dict.fromkeys(names.values(), "scale")
    for name in table.column_names:
        made, column = names[name], columns.get(name)
        said = (name if made != name else "", column.description if column else "")
        if any(said):
            labels[made] = _cut(": ".join(filter(None, said))[:characters], size)
        numbers = level_numbers(column) if column and column.levels else {}
        data[made] = _stored(table.column(name), numbers)
        if column and numbers:
            values[made] = {each: _cut(text, value_size) for text, each in numbers.items()}
            measures[made] = "ordinal" if column.type.ordered else "nominal"
    write = partial(writer.write_sav, variable_measure=measures, row_compress=True)
    if path.suffix == ".dta":
        write = partial(writer.write_dta, version=14)  # of 15, only Stata/MP opens the file
    try:
        write(
            pd.DataFrame(data),
            path,
            file_label=_cut(about, file_size),
            column_labels=labels,
            variable_value_labels=values,
        )
    except writer.ReadstatError as error:
        raise OSError(errno.EIO, str(error)) from None


def pyreadstat() -> Any:
    """Return the package that writes the files.

    Raises:
        BadInput: if it is not installed.
    """
    try:
        import pyreadstat
    except ModuleNotFoundError as error:
        raise BadInput(
            f"Files for Stata and SPSS need the package {error.name}; type: python -m pip install"
            " pyreadstat"
        ) from None
    return pyreadstat


def _stored(values: pa.ChunkedArray, numbers: Mapping[str, int]) -> Any:
    """Return a column as pandas has it: whole numbers as integers, dates as dates, null missing."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.null_count == len(values):
        return np.full(len(values), np.nan)  # pyreadstat takes objects without a value for texts
    if numbers:
        place = pc.index_in(values.cast(pa.string()), value_set=pa.array(list(numbers)))
        values = pa.chunked_array([pa.array(list(numbers.values()), pa.int32())]).take(place)
    elif pa.types.is_integer(values.type):
        most = max(map(abs, pc.min_max(values).as_py().values()))
        values = values.cast(pa.int32() if most <= LARGEST_LONG else pa.float64())
    whole = {pa.int32(): pd.Int32Dtype()}
    return values.to_pandas(types_mapper=whole.get, date_as_object=True)


def _cut(text: str, size: int) -> str:
    """Return as much of a text as fits into a number of bytes."""
    return text.encode()[:size].decode(errors="ignore")
