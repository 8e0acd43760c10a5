"""Households and persons of two tables as codes, household by household. Confidential side.

Keys are compared as exact texts; a whole number is compared by its text. Every table is encoded
like a single one (`dp_core.confidential.encoding`). Rules over household columns and `members` are
judged for each household, rules with a person column for each person with the columns of the
household; of the latter, only a person column can be set to missing.

Members are in the order of their keys where all keys of a household are whole numbers, otherwise in
the order of the file.

Privacy:
    The codes of a household are a function of that household's row and of its members' rows alone,
    in the order in which the file has them: which members a household above `max_members` keeps,
    and whether its keys count as numbers, depends on no other household. So files that differ in
    one household with its members have the same pair rows but for those of this household, and
    every household has the same number of shares (`dp_core.schema.linked.linked_tables`). Whether
    a file is refused depends on all its rows; like every refusal, it is outside epsilon.

The functions from `encoded_columns` on take and return arrays of whole households, so that a file
can be read piece by piece. Memory is linear in the rows, and so is time but for one sort.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.confidential.between_columns import RuleCheck
from dp_core.confidential.encoding import BrokenRule, Encoder, settle_zeros
from dp_core.confidential.raw_values import Array, Reader, is_text
from dp_core.errors import BadInput, SchemaViolation, nearest
from dp_core.schema.definition import Schema
from dp_core.schema.linked.household_rows import HouseholdRows, to_pair_rows
from dp_core.schema.linked.linked_tables import MEMBERS, LinkedTables
from dp_core.tables.dataset import Dataset
from dp_core.tables.structural_zeros import StructuralZeros

_WHOLE = r"^-?[0-9]{1,18}$"
_SHOWN = 5
"""Rows, columns or rules that an error names."""


def pair_row_codes(schema: Schema, households: pa.Table, persons: pa.Table) -> Dataset:
    """Return the pair rows of two confidential tables, in the wide domain.

    Args:
        schema: The schema, of linked tables.
        households: Raw values of the table of households; the order of the columns is free.
        persons: Raw values of the table of persons.

    Returns:
        The pair rows, household by household in the order of `households`.

    Raises:
        BadInput: if a column is missing, or not in the schema, or a key is neither text nor a whole
            number.
        SchemaViolation: if keys, links or sizes are not as the schema says, values are not in the
            schema, or rows break a rule. The message names no value and no count.
    """
    linked = _linked(schema)
    return to_pair_rows(linked, schema.domain, household_codes(schema, households, persons))


def household_codes(schema: Schema, households: pa.Table, persons: pa.Table) -> HouseholdRows:
    """Return the codes of two confidential tables; see `pair_row_codes`."""
    linked = _linked(schema)
    _check_columns(linked.households, households, linked.household_reads, linked.household_ignore)
    _check_columns(linked.persons, persons, linked.person_reads, linked.person_ignore)
    missing = schema.unit.missing_values
    links = linked_members(
        linked,
        key_texts(linked.households, linked.key, households.column(linked.key), missing),
        key_texts(linked.persons, linked.link, persons.column(linked.link), missing),
        key_texts(linked.persons, linked.person_key, persons.column(linked.person_key), missing),
    )
    return linked_codes(
        schema,
        links,
        encoded_columns(schema, linked.households, linked.household_columns, households),
        encoded_columns(schema, linked.persons, linked.person_columns, persons),
        compared_units(schema, linked.household_columns, households),
        compared_units(schema, linked.person_columns, persons),
    )


def linked_codes(
    schema: Schema,
    links: Links,
    homes: Mapping[str, NDArray[np.uint16]],
    persons: Mapping[str, NDArray[np.uint16]],
    home_units: Mapping[str, NDArray[np.int64]],
    person_units: Mapping[str, NDArray[np.int64]],
) -> HouseholdRows:
    """Return the codes of two tables household by household, after their rules are settled.

    Args:
        schema: The schema of linked tables.
        links: The members of each household.
        homes: Codes of the household columns, each of shape (households,); changed in place.
        persons: Codes of the person columns, each of shape (rows of the table of persons,).
        home_units: Values of household columns that rules compare (`compared_units`).
        person_units: Values of person columns that rules compare.

    Raises:
        SchemaViolation: if rows break a rule and no policy settles them.
    """
    linked = _linked(schema)
    each = {name: codes[links.persons] for name, codes in persons.items()}
    settle_rules(
        schema,
        {**homes, MEMBERS: (links.sizes - linked.min_members).astype(np.uint16)},
        each,
        {**home_units, MEMBERS: links.sizes},
        {name: units[links.persons] for name, units in person_units.items()},
        links.sizes,
    )
    return HouseholdRows(
        np.stack([homes[name] for name in linked.household_columns]),
        links.sizes,
        np.stack([each[name] for name in linked.person_columns]),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Links:
    """The members of each household. Confidential.

    Attributes:
        sizes: Number of members of each household that are kept, `int64`, shape (households,).
        persons: Their rows in the table of persons, household by household, shape (persons kept,).
    """

    sizes: NDArray[np.int64]
    persons: NDArray[np.int64]


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
            f"Column {linked.key!r} of {home} repeats a key; every household has one row, so remove"
            " the others, or name the column that identifies a household.",
            first != np.arange(len(keys)),
        )
    found = pc.index_in(links, value_set=keys)
    if found.null_count:
        raise _orphans(linked, keys, links, found)
    of = found.to_numpy().astype(np.int64)
    if (repeated := _repeated(of, person_keys)).any():
        raise _violation(
            f"Column {linked.person_key!r} of {person} repeats a key within a household; correct"
            " it, or name the column that tells the persons of a household apart.",
            repeated,
        )
    sizes = np.bincount(of, minlength=len(keys)).astype(np.int64)
    if (few := sizes < linked.min_members).any():
        raise _violation(
            f"There are rows of {home} without a row of {person}; add their members, or leave these"
            " households out.",
            few,
        )
    many = sizes > linked.max_members
    if many.any() and linked.larger == "reject":
        raise _violation(
            f"There are households with more than {linked.max_members} members, the `max_members`"
            " of the schema; leave them out (an institution is not a household), or write `larger:"
            " clip` to keep their first members.",
            many,
        )
    order = np.lexsort((_numbers(of, sizes, person_keys), of))  # stable: then the file's order
    if many.any():
        # privacy: which members stay depends on the rows of the household alone.
        starts = np.cumsum(sizes) - sizes
        rank = np.arange(order.size) - starts[of[order]]
        order = order[rank < linked.max_members]
        sizes = np.minimum(sizes, linked.max_members)
    return Links(sizes, order)


def encoded_columns(
    schema: Schema, table: str, names: Sequence[str], rows: pa.Table
) -> dict[str, NDArray[np.uint16]]:
    """Return the codes of some columns of one table, each of shape (rows,).

    Args:
        schema: The schema of linked tables.
        table: Name of the table, for the message.
        names: The columns.
        rows: Raw values.

    Raises:
        SchemaViolation: if values are not in the schema; the message names the columns only.
    """
    codes, misfits = {}, {}
    for name in names:
        encoded = Encoder(schema.column(name)).encode(rows.column(name))
        codes[name] = np.ascontiguousarray(encoded.codes)
        if encoded.bad is not None:
            misfits[name] = int(encoded.bad.sum())
    if misfits:
        said = ", ".join(repr(name) for name in list(misfits)[:_SHOWN])
        raise SchemaViolation(
            f"Values of {said} in the table {table} are not in the schema; correct the file or the"
            " schema.",
            internal="\n".join(f"{count} rows: {name}" for name, count in misfits.items()),
        )
    return codes


def compared_units(
    schema: Schema, names: Sequence[str], rows: pa.Table
) -> dict[str, NDArray[np.int64]]:
    """Return the values of one table that rules compare, in whole units, each of shape (rows,).

    Args:
        schema: The schema of linked tables.
        names: Columns of the table; those that no rule compares are left out.
        rows: Raw values.
    """
    check = RuleCheck(schema)
    return {
        name: check.units_of(name, Reader(schema.column(name)).read(rows.column(name)))
        for name in check.columns
        if name in names
    }


def settle_rules(
    schema: Schema,
    homes: Mapping[str, NDArray[np.uint16]],
    persons: Mapping[str, NDArray[np.uint16]],
    home_units: Mapping[str, NDArray[np.int64]],
    person_units: Mapping[str, NDArray[np.int64]],
    sizes: NDArray[np.int64],
) -> None:
    """Set columns to missing in rows that break a rule, where the schema says so; in place.

    Args:
        schema: The schema of linked tables.
        homes: Codes of the household columns and of `members`, each of shape (households,).
        persons: Codes of the person columns, each of shape (persons,), household by household.
        home_units: Values of household columns and of `members` that rules compare.
        person_units: Values of person columns that rules compare.
        sizes: Number of members of each household, shape (households,).

    Raises:
        SchemaViolation: if rows break a rule and no policy settles them.
    """
    linked = _linked(schema)
    _refuse(linked, linked.households, _settled(schema, homes, home_units))
    named = {name for rule in (*schema.zeros.rules, *schema.rules) for name in rule.columns}
    of = np.repeat(np.arange(sizes.size), sizes)
    codes = {name: codes[of] for name, codes in homes.items() if name in named}
    units = {name: units[of] for name, units in home_units.items() if name in named}
    broken = _settled(schema, {**codes, **persons}, {**units, **person_units}, fixed={*homes})
    _refuse(linked, linked.persons, broken)


def _settled(
    schema: Schema,
    codes: Mapping[str, Array],
    units: Mapping[str, NDArray[np.int64]],
    fixed: Collection[str] = (),
) -> list[BrokenRule]:
    """Settle the rules over some columns, but for those whose columns are all fixed."""

    def judged(names: tuple[str, ...]) -> bool:
        return {*names} <= {*codes} and not {*names} <= {*fixed}

    zeros = tuple(rule for rule in schema.zeros.rules if judged(rule.columns))
    rules = tuple(rule for rule in schema.rules if judged(rule.columns))
    names = tuple(dict.fromkeys(name for rule in (*zeros, *rules) for name in rule.columns))
    if not names:
        return []
    columns = (schema.column(name) for name in names)
    only = replace(
        schema,
        # Of a household that several persons share, no rule of one person changes a column.
        columns=tuple(replace(c, out_of_range="reject") if c.name in fixed else c for c in columns),
        zeros=StructuralZeros(zeros),
        rules=rules,
        order=names,
        linked=None,
    )
    return settle_zeros(only, [codes[name] for name in names], units)


def _refuse(linked: LinkedTables, table: str, broken: Sequence[BrokenRule]) -> None:
    left = [each for each in broken if each.refused]
    if not left:
        return
    texts = ", ".join(f"`{each.rule.text}`" for each in left[:_SHOWN])
    whose = "households" if table == linked.households else "persons"
    raise SchemaViolation(
        f"The files have {whose} that break {texts} of the schema; correct the files or the rule.",
        internal="\n".join(f"{each.refused} rows of {table}: {each.rule.text}" for each in left),
    )


def _repeated(of: NDArray[np.int64], person_keys: pa.Array) -> NDArray[np.bool_]:
    """Return which persons have the key of an earlier person of their household."""
    encoded = person_keys.dictionary_encode()
    both = of * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    order = np.argsort(both, kind="stable")
    repeated = np.zeros(of.size, dtype=bool)
    repeated[order[1:]] = both[order][1:] == both[order][:-1]
    return repeated


def _numbers(
    of: NDArray[np.int64], sizes: NDArray[np.int64], person_keys: pa.Array
) -> NDArray[np.int64]:
    """Return the keys of persons as numbers, 0 in households where a key is no whole number."""
    whole, numbers = _whole(person_keys)
    # privacy: a household's keys are numbers or not by themselves, whatever the others have.
    mixed = np.bincount(of[~whole], minlength=sizes.size) > 0
    return np.where(mixed[of], 0, numbers)


def _whole(texts: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which texts are whole numbers, and the numbers, 0 for the others."""
    whole = pc.match_substring_regex(texts, _WHOLE)
    numbers = pc.if_else(whole, texts, pa.scalar("0", texts.type)).cast(pa.int64())
    return whole.to_numpy(zero_copy_only=False), numbers.to_numpy()


def _orphans(
    linked: LinkedTables, keys: pa.Array, links: pa.Array, found: pa.Array
) -> SchemaViolation:
    """Return the error about links that are no key, where `found` is null."""
    orphan = found.is_null().to_numpy(zero_copy_only=False)
    said = f"Column {linked.link!r} of the table {linked.persons}"
    whole, numbers = _whole(links)
    key_whole, key_numbers = _whole(keys)
    if np.isin(numbers[orphan & whole], key_numbers[key_whole]).any():
        return _violation(
            f"{said} and {linked.key!r} of the table {linked.households} match as whole numbers but"
            " not as texts, as 7 and 07 do; write the keys alike in both files.",
            orphan,
        )
    return _violation(
        f"{said} has values that are no {linked.key!r} of the table {linked.households}; add these"
        " households, or remove their persons.",
        orphan,
    )


def _violation(message: str, bad: NDArray[np.bool_]) -> SchemaViolation:
    rows = np.flatnonzero(bad)
    first = ", ".join(str(row + 1) for row in rows[:_SHOWN])
    return SchemaViolation(message, internal=f"{rows.size} rows, the first of them {first}")


def key_texts(table: str, name: str, values: pa.ChunkedArray, missing: Collection[str]) -> pa.Array:
    """Return a column of keys as texts.

    Args:
        table: Name of the table, for the message.
        name: Name of the column.
        values: Its raw values.
        missing: Texts that are no key, besides the empty one.

    Raises:
        BadInput: if it holds neither texts nor whole numbers.
        SchemaViolation: if a key is empty.
    """
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise BadInput(
            f"Column {name!r} of the table {table} is a key and is stored as {kind}; store it as"
            " text or whole numbers, so that equal keys are equal texts."
        )
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    texts = array.cast(pa.string()).cast(pa.large_string())
    nothing = pa.array(["", *(text.strip() for text in missing)], pa.large_string())
    empty = pc.or_(texts.is_null(), pc.is_in(pc.utf8_trim_whitespace(texts), value_set=nothing))
    if pc.any(empty).as_py():
        raise _violation(
            f"Column {name!r} of the table {table} has rows without a key; fill the column, or"
            " remove these rows.",
            empty.to_numpy(zero_copy_only=False),
        )
    return texts


def _check_columns(table: str, rows: pa.Table, reads: Sequence[str], ignore: Sequence[str]) -> None:
    names = rows.column_names
    for name in reads:
        if names.count(name) != 1:
            what = "has two columns" if name in names else "has no column"
            hint = nearest(name, names) if name not in names else ""
            raise BadInput(f"The table {table} {what} {name!r}, which the schema names.{hint}")
    for name in names:
        if name not in reads and name not in ignore:
            raise BadInput(
                f"The table {table} has a column {name!r} that is not in the schema; add it there"
                " under `columns` or `ignore`."
            )


def _linked(schema: Schema) -> LinkedTables:
    if schema.linked is None:
        raise ValueError("The schema is of a single table.")
    return schema.linked
