"""Links between two tables by their keys: who the members of each household are. Confidential side.

Keys are compared in the same way as identifiers of persons, whatever their stored type
(`dp_core.kernel.coding.stored_texts`). Members are in the order of their keys. Digits in keys
count as numbers: 9 is before 10, and p9 before p10.

Privacy:
    The members of a household that are kept, and their order, are a function of the keys of the
    household's own persons: neither of the order of the file nor of how it stores the keys. Whether
    a file is refused depends on all its rows; like every refusal, it is outside epsilon.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.errors import SchemaViolation
from dp_core.kernel.coding.stored_texts import identifier_texts, missing_identifiers
from dp_core.schema.linked.linked_tables import LinkedTables

_SHOWN = 5
"""Rows that the internal detail of an error names."""


def key_texts(table: str, name: str, values: pa.Array, missing: Collection[str]) -> pa.Array:
    """Return a column of keys as texts without null.

    Args:
        table: Name of the table, for messages.
        name: Name of the column.
        values: Texts, or whole numbers of any stored type.
        missing: Texts that mean missing, besides blanks.

    Raises:
        SchemaViolation: if a key is empty, keys have another type, or numbers are not whole or too
            large for their type.
    """
    texts = identifier_texts(values, f"Column {name!r} of the table {table} is a key and")
    empty = pc.or_(texts.is_null(), pc.is_in(texts, value_set=missing_identifiers(missing)))
    if pc.any(empty).as_py():
        raise _violation(
            f"Column {name!r} of the table {table} has rows without a key; fill in the keys,"
            " or remove these rows.",
            empty.to_numpy(zero_copy_only=False),
        )
    return texts.cast(pa.large_string())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Links:
    """The members of each household. Confidential.

    Attributes:
        sizes: Number of members of each household that are kept, `int64`, shape (households,).
        persons: Their rows in the table of persons, household by household, shape (persons kept,).
        keys: Key of each household as text, never null, shape (households,).
    """

    sizes: NDArray[np.int64]
    persons: NDArray[np.int64]
    keys: pa.Array


def linked_members(
    linked: LinkedTables, keys: pa.Array, links: pa.Array, person_keys: pa.Array
) -> Links:
    """Return the members of each household, in the order that the module states.

    Args:
        linked: The two tables.
        keys: Key of each household, texts without null.
        links: Key of each person's household, texts without null.
        person_keys: Key of each person, texts without null.

    Raises:
        SchemaViolation: if a key or link is not as the schema says, or a household has too few or
            too many members. The message names no value and no count.
    """
    home, person = f"the table {linked.households}", f"the table {linked.persons}"
    if len(pc.unique(keys)) < len(keys):
        first = pc.index_in(keys, value_set=keys).to_numpy()  # of equal keys, the first
        raise _violation(
            f"Column {linked.key!r} of {home} repeats a key; a household has one row, so remove the"
            " duplicates, or name the column that identifies a household under `key`.",
            first != np.arange(len(keys)),
        )
    found = pc.index_in(links, value_set=keys)
    if found.null_count:
        raise _violation(
            f"Column {linked.link!r} of {person} has values that are not in column {linked.key!r}"
            f" of {home}; add these households, or remove their persons.",
            found.is_null().to_numpy(zero_copy_only=False),
        )
    of = found.to_numpy().astype(np.int64)
    if (repeated := _repeated(of, person_keys)).any():
        raise _violation(
            f"Column {linked.person_key!r} of {person} repeats a key within a household; correct"
            " it, or name the column that tells the persons of a household apart under `key`.",
            repeated,
        )
    sizes = np.bincount(of, minlength=len(keys)).astype(np.int64)
    if (few := sizes < linked.min_members).any():
        raise _violation(
            f"Some households in {home} have no members in {person}; add their members, leave these"
            " households out, or write `min_members: 0` in the schema to allow households without"
            " members, such as vacant dwellings.",
            few,
        )
    many = sizes > linked.max_members
    key, link = f"`key: {linked.person_key}`", f"`link: {linked.link}`"
    if many.any() and linked.larger == "reject":
        raise _violation(
            f"Some households have more than {linked.max_members} members, the `max_members` of the"
            " schema; leave them out (an institution is not a household), write `larger: clip` to"
            f" keep only their first members, or exchange {key} and {link} of {person} if nearly"
            " all persons are in such households.",
            many,
        )
    left_out = int((sizes[many] - linked.max_members).sum())
    if 2 * left_out > of.size and 2 * int((sizes == 0).sum()) > sizes.size:
        raise _violation(
            f"`larger: clip` would leave out more than half of the persons, and more than half of"
            f" the households have no members; {key} and {link} of {person} seem to be exchanged in"
            " the schema.",
            many,
        )
    order = np.lexsort((_ranks(person_keys), of))
    if many.any():
        # privacy: which members stay depends on the rows of the household alone.
        starts = np.cumsum(sizes) - sizes
        rank = np.arange(order.size) - starts[of[order]]
        order = order[rank < linked.max_members]
        sizes = np.minimum(sizes, linked.max_members)
    return Links(sizes, order, keys)


def _repeated(of: NDArray[np.int64], person_keys: pa.Array) -> NDArray[np.bool_]:
    """Return which persons have the key of an earlier person of their household."""
    encoded = person_keys.dictionary_encode()
    both = of * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    order = np.argsort(both, kind="stable")
    repeated = np.zeros(of.size, dtype=bool)
    repeated[order[1:]] = both[order][1:] == both[order][:-1]
    return repeated


def _ranks(person_keys: pa.Array) -> NDArray[np.int64]:
    """Return the place of each key in the order of all keys."""
    encoded = person_keys.dictionary_encode()
    texts = encoded.dictionary.to_pylist()

    def key(place: int) -> tuple[list[str | Decimal], str]:
        parts = re.split("(^-?[0-9]+|[0-9]+)", texts[place])  # texts and numbers in turn
        return [Decimal(part) if at % 2 else part for at, part in enumerate(parts)], texts[place]

    ranks = np.empty(len(texts), np.int64)
    # privacy: the order of two keys depends on these keys alone.
    ranks[sorted(range(len(texts)), key=key)] = np.arange(len(texts))
    found: NDArray[np.int64] = ranks[encoded.indices.to_numpy()]
    return found


def _violation(message: str, bad: NDArray[np.bool_]) -> SchemaViolation:
    rows = np.flatnonzero(bad)
    first = ", ".join(str(row + 1) for row in rows[:_SHOWN])
    where = f"row {first}" if rows.size == 1 else f"{rows.size:,} rows, starting with {first}"
    return SchemaViolation(message, internal=where)
