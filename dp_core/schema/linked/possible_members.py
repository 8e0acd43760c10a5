"""Replaces codes of synthetic households for which no values obey the rules of a table."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput, ReleaseError
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.linked.member_counts import MemberCounts, PersonTypes, type_zeros
from dp_core.schema.rules.possible_codes import possible_record, with_possible_values
from dp_core.schema.structure.member_rules import broken_households, households_that_break
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows

_MOST_TRIED = 200
"""Most combinations of types of members that are tried for each size of household."""


def with_possible_members(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> Dataset:
    """Return pair rows for whose codes there are values that obey all rules.

    A rule over one table may need other codes in some rows of that table; see
    `dp_core.schema.rules.possible_codes.with_possible_values`. A rule over columns of both tables,
    or with `members`, is decided by codes, so it holds if no structural zero is broken; so is a
    rule that counts members. Where other codes of one table break one, another household with its
    members takes the place of the whole household.

    Args:
        schema: Schema of the wide domain.
        data: Pair rows of whole households that break no structural zero and no rule that counts
            members.
        rng: Generator for post-processing.

    Raises:
        BadInput: if no row of a table has such values, or no household with a member.
        ReleaseError: if a household is left that breaks a rule that counts members.
    """
    found, linked = _with_possible_values(schema, data, rng=rng), schema.linked
    if linked is not None and linked.rules and found.rows:
        rows = from_pair_rows(linked, found)
        for rule in linked.rules:
            if households_that_break(rule, linked.person_columns, rows).any():
                raise ReleaseError(
                    f"Synthetic households break the rule `{rule.text}`, so no set is written;"
                    " please report this as a fault of the program."
                )
    return found


def _with_possible_values(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> Dataset:
    homes, persons = schema.household_schema, schema.person_schema
    linked = schema.linked
    assert linked is not None
    if not homes.rules and not persons.rules:
        return data
    rows = from_pair_rows(linked, data)
    own, members = Dataset(homes.domain, rows.households), Dataset(persons.domain, rows.persons)
    mended = (
        with_possible_values(homes, own, rng=rng),
        with_possible_values(persons, members, rng=rng),
    )
    if mended[0] is own and mended[1] is members:
        return data
    possible = HouseholdRows(mended[0].codes, rows.sizes, mended[1].codes)
    pairs = to_pair_rows(linked, data.domain, possible)
    bad = households_with(schema.zeros.violations(pairs), rows.sizes)
    bad |= broken_households(linked.rules, linked.person_columns, possible)
    if not bad.any():
        return pairs
    if bad.all():
        return _all_alike(schema, linked, data.domain, bad.size, rng=rng)
    return to_pair_rows(linked, data.domain, with_donors(possible, bad, rng=rng))


def possible_household(schema: Schema, *, rng: np.random.Generator) -> HouseholdRows:
    """Return a household with one or more members that obeys all rules that codes decide.

    Rules over the values of one table are not judged, because `with_possible_members` replaces
    codes that have no values.

    Args:
        schema: Schema of the wide domain.
        rng: Generator for post-processing.

    Raises:
        BadInput: if the rules leave no household possible, or none is found in many tries.
    """
    schema = schema.with_members
    linked = schema.linked
    if linked is None:
        raise ValueError("The schema is of a single table.")
    domain, names = schema.domain, linked.person_columns
    homes = (*linked.household_columns, MEMBERS)
    sizes = {name: domain.size((name,)) for name in names}
    zeros = [rule for rule in schema.zeros.rules if not {*linked.others} & {*rule.columns}]
    types = PersonTypes(linked.rules, domain, StructuralZeros(tuple(zeros)))
    for code, members in enumerate(linked.sizes):
        here = types.at(code)
        tried = MemberCounts(linked.rules, here).households(members)
        for chosen in itertools.islice(tried, _MOST_TRIED):
            # Members of the same type are alike, so one record has the household and each type.
            each = tuple(dict.fromkeys(chosen))
            columns = [f"{name} {place}" for place in range(len(each)) for name in names]
            record = Domain(
                (*homes, *columns),
                (*domain.project(homes).sizes, *(size for _ in each for size in sizes.values())),
            )
            other = tuple(at for at in range(len(linked.sizes)) if at != code)
            rules = [Rule((MEMBERS,), (other,), MEMBERS)] if other else []
            for place, one in enumerate(each):
                own = {name: f"{name} {place}" for name in names}
                for rule in (*zeros, *type_zeros(linked.rules, one, sizes)):
                    own_columns = tuple(own.get(name, name) for name in rule.columns)
                    rules.append(replace(rule, columns=own_columns))
            start = np.array([rng.integers(size) for size in record.sizes], dtype=record.code_type)
            try:
                found = StructuralZeros(tuple(dict.fromkeys(rules))).possible_record(
                    record, start, rng=rng
                )
            except BadInput:
                continue
            persons = found[len(homes) :].reshape(len(each), len(names))
            return HouseholdRows(
                found[: len(homes) - 1, None],
                np.array([members]),
                np.stack([persons[each.index(one)] for one in chosen], axis=1),
            )
    texts = "; ".join(f"`{rule.text}`" for rule in linked.rules[:5])
    raise BadInput(
        f"No household was found that obeys all rules of the schema together ({texts}); check that"
        " `rules` and `impossible` leave some household possible."
    )


def _all_alike(
    schema: Schema,
    linked: LinkedTables,
    domain: Domain,
    households: int,
    *,
    rng: np.random.Generator,
) -> Dataset:
    """Return copies of one possible household; without rules that count, its members are equal."""
    if linked.rules:
        one = possible_household(schema, rng=rng)
        many = HouseholdRows(
            np.repeat(one.households, households, axis=1),
            np.repeat(one.sizes, households),
            np.tile(one.persons, households),
        )
        return to_pair_rows(linked, domain, many)
    record = possible_record(schema.with_members, rng=rng)
    middle, end = len(linked.household_columns), len(linked.columns) - len(linked.others)
    size = 1 + int(record[middle])
    rows = HouseholdRows(
        np.repeat(record[:middle, None], households, axis=1),
        np.full(households, size),
        np.repeat(record[middle + 1 : end, None], households * size, axis=1),
    )
    return to_pair_rows(linked, domain, rows)


def with_donors(
    rows: HouseholdRows, bad: NDArray[np.bool_], *, rng: np.random.Generator
) -> HouseholdRows:
    """Return households of which the bad ones are replaced by random good ones, with their members.

    A bad household is replaced by one of as many members, if there is a good one.

    Args:
        rows: The households.
        bad: Which households are replaced, shape (households,); not all of them.
        rng: Generator for post-processing.

    >>> homes, people = np.array([[0, 1, 2]]), np.array([[4, 5, 6, 7]])
    >>> found = with_donors(
    ...     HouseholdRows(homes, np.array([1, 2, 1]), people),
    ...     np.array([False, False, True]),
    ...     rng=np.random.default_rng(0),
    ... )
    >>> found.households.tolist(), found.persons.tolist(), found.sizes.tolist()
    ([[0, 1, 0]], [[4, 5, 6, 4]], [1, 2, 1])
    """
    sizes = rows.sizes
    source = np.arange(sizes.size)
    for size in np.unique(sizes[bad]):
        asked = np.flatnonzero(bad & (sizes == size))
        alike = np.flatnonzero(~bad & (sizes == size))
        donors = alike if alike.size else np.flatnonzero(~bad)
        source[asked] = rng.choice(donors, size=asked.size)
    return rows.take(source)


def households_with(bad: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which households have a bad pair row, shape (households,).

    Args:
        bad: Which pair rows are bad, household by household.
        sizes: Number of members of each household.
    """
    found = np.zeros(sizes.size, dtype=np.bool_)
    found[np.repeat(np.arange(sizes.size), np.maximum(sizes * (sizes - 1), 1))[bad]] = True
    return found
