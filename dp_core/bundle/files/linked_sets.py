"""Reads a synthetic set of two linked tables, and checks its keys and links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.bundle.best_set import set_in_words
from dp_core.bundle.files.codebook import set_paths
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.tables.household_rows import HouseholdRows


@dataclass(frozen=True, slots=True, eq=False)
class LinkedSet:
    """A synthetic set of two linked tables, whose links are valid.

    Attributes:
        households: The table of households, as in its file.
        persons: The table of persons, household by household in the order of `households`.
        sizes: Number of members of each household, `int64`, shape (households,).
    """

    households: pa.Table
    persons: pa.Table
    sizes: NDArray[np.int64]

    @property
    def household_of(self) -> NDArray[np.int64]:
        """Position of each person's household, shape (persons,)."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)


def read_linked_set(folder: Path, schema: Schema, number: int) -> LinkedSet:
    """Return a synthetic set of a bundle of linked tables.

    Args:
        folder: The bundle.
        schema: Its schema.
        number: Number of the set, from 1; 0 is the best set.

    Raises:
        BadInput: if a file cannot be read, or keys, links or sizes are not as the schema says.
    """
    found = []
    for path in set_paths(schema, number):
        try:
            found.append(pq.read_table(folder / path).unify_dictionaries().combine_chunks())
        except (OSError, pa.ArrowException, ValueError):
            raise BadInput(f"{path} cannot be read as Parquet.") from None
    return linked_set(schema, *found, name=set_in_words(number))


def linked_set(schema: Schema, households: pa.Table, persons: pa.Table, *, name: str) -> LinkedSet:
    """Return two tables as a set, after a check of its keys and links.

    Args:
        schema: The schema, of linked tables.
        households: Table of households, with its key.
        persons: Table of persons, with the link and the person's key, in any order.
        name: Name of the set, for the message.

    Raises:
        BadInput: if keys, links or sizes are not as the schema says.
    """
    linked = _linked_tables(schema)
    keys = _keys(households, linked.key, linked.households, name)
    links = _keys(persons, linked.link, linked.persons, name)
    numbers = _keys(persons, linked.person_key, linked.persons, name)
    if len(pc.unique(keys)) < len(keys):
        raise BadInput(f"The key {linked.key!r} of {linked.households} is not unique in {name}.")
    position = pc.index_in(links, value_set=keys)
    if position.null_count:
        raise BadInput(
            f"The link {linked.link!r} of {linked.persons} names a household that is not in {name}."
        )
    of = position.to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = pa.table({"of": of, "number": numbers}).group_by(["of", "number"]).aggregate([])
    if pairs.num_rows < len(of):
        raise BadInput(
            f"The key {linked.person_key!r} of {linked.persons} is not unique within the households"
            f" of {name}."
        )
    sizes = np.bincount(of, minlength=len(keys)).astype(np.int64)
    if sizes.size and not (linked.min_members <= sizes.min() and sizes.max() <= linked.max_members):
        raise BadInput(
            f"A household of {name} has fewer than {linked.min_members} or more than"
            f" {linked.max_members} members."
        )
    if (np.diff(of) < 0).any():
        persons = persons.take(np.argsort(of, kind="stable"))
    return LinkedSet(households, persons, sizes)


def codes_of_set(schema: Schema, data: LinkedSet) -> HouseholdRows:
    """Return the codes of a set.

    Raises:
        ValueError: if a value is not in the schema.
        KeyError: if a column is missing.
    """
    linked = _linked_tables(schema)

    def codes(table: pa.Table, names: tuple[str, ...]) -> Codes:
        kind = schema.domain.project(names).code_type
        found = np.empty((len(names), table.num_rows), dtype=kind)
        for row, name in zip(found, names, strict=True):
            column = table.column(name)
            chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            row[:] = codes_of(schema.column(name), chunk)
        return found

    return HouseholdRows(
        codes(data.households, linked.household_columns),
        data.sizes,
        codes(data.persons, linked.person_columns),
    )


def join_households(schema: Schema, data: LinkedSet) -> pa.Table:
    """Return the persons of a set with the columns of their households, and `members`.

    The columns are those of the wide domain without the ones of another member, in its order, after
    the key of the household and the key of the person.

    Args:
        schema: The schema, of linked tables.
        data: The set.
    """
    linked, of = _linked_tables(schema), data.household_of
    names = [linked.link, linked.person_key]
    arrays = [data.persons.column(name) for name in names]
    arrays += [data.households.column(name).take(of) for name in linked.household_columns]
    arrays.append(pa.chunked_array([data.sizes[of]]))
    arrays += [data.persons.column(name) for name in linked.person_columns]
    return pa.table(
        arrays, names=[*names, *linked.household_columns, MEMBERS, *linked.person_columns]
    )


def households_with_members(data: LinkedSet) -> pa.Table:
    """Return the table of households of a set with the column `members`."""
    return data.households.append_column(MEMBERS, pa.array(data.sizes))


def _keys(table: pa.Table, column: str, of: str, name: str) -> pa.Array:
    try:
        keys = table.column(column)
    except KeyError:
        raise BadInput(f"The table {of} of {name} has no column {column!r}.") from None
    if keys.null_count or not pa.types.is_integer(keys.type):
        raise BadInput(f"The column {column!r} of {of} does not hold a whole number in every row.")
    found = keys.combine_chunks()
    try:
        return found.cast(pa.int64()) if isinstance(found, pa.Array) else found
    except pa.ArrowInvalid:
        raise BadInput(f"The column {column!r} of {of} in {name} has too large numbers.") from None


def _linked_tables(schema: Schema) -> LinkedTables:
    if schema.linked is None:
        raise ValueError("The schema is of a single table.")
    return schema.linked
