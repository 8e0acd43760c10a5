"""The members that a household may have, and the schema of the wide domain. Public.

Persons are of the same *type* if every rule counts either all or none of them. The types of the
members decide whether a household obeys these rules. So the possible numbers of members of each
type determine the sizes of households and the codes of their members that can occur.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, OTHER, LinkedColumns
from dp_core.kernel.document import ProtectedUnit
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.linked.linked_tables import NO_OTHER, LinkedTables, other
from dp_core.schema.rules.column_rules import AtMost, ColumnRule
from dp_core.schema.rules.excluded_boxes import MOST_CELLS
from dp_core.schema.rules.unit_bounds import codes_that_hold, unit_bounds, units_by_column
from dp_core.schema.structure.member_rules import MemberRule
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros

Type = int
"""Sum of 2^k over the rules k that count a person of this type."""
_Numbers = tuple[int, ...]

_MOST_CELLS = 1 << 22
_MOST_NUMBERS = 1 << 13
"""Most combinations of the numbers of members that the rules count."""


class PersonTypes:
    """The types of the persons that a household of some size may have.

    Attributes:
        columns: Person columns of the rules, in the order of the domain.
        cells: Type of each combination of codes of these columns, shape
            `domain.project(columns).sizes`.
        possible: Whether a person of a household of each size may have the combination, by the
            structural zeros over these columns and `members`, shape (sizes, *cells.shape).

    Args:
        rules: The rules.
        domain: A domain with `members` and the person columns.
        zeros: Impossible combinations of codes.

    Raises:
        BadInput: if the rules are about too many codes.
    """

    def __init__(self, rules: Sequence[MemberRule], domain: Domain, zeros: StructuralZeros) -> None:
        named = {name for rule in rules for name in rule.columns}
        columns: Clique = tuple(name for name in domain.columns if name in named)
        sizes = domain.project((MEMBERS, *columns))
        if sizes.size() > _MOST_CELLS:
            raise BadInput(
                f"The rules that count members name {', '.join(columns)}, which together have more"
                f" than {_MOST_CELLS:,} combinations; give the columns fewer levels or bins, or"
                " remove a rule."
            )
        cells = np.zeros(sizes.sizes[1:], dtype=np.int64)
        for number, rule in enumerate(rules):
            box: list[Sequence[int]] = [range(size) for size in cells.shape]
            for name, codes in zip(rule.columns, rule.codes, strict=True):
                box[columns.index(name)] = codes
            cells[np.ix_(*[np.asarray(codes, dtype=np.intp) for codes in box])] |= 1 << number
        self.columns, self.cells, self.possible = columns, cells, ~zeros.mask(sizes)

    def at(self, size: int) -> tuple[Type, ...]:
        """Return the types that persons of a household may have; `size` is its code."""
        return tuple(np.unique(self.cells[self.possible[size]]).tolist())


class MemberCounts:
    """The numbers of members of each type with which a household obeys all rules.

    Args:
        rules: The rules.
        types: The types that its members may have.

    Raises:
        BadInput: if the rules are too many.
    """

    def __init__(self, rules: Sequence[MemberRule], types: Sequence[Type]) -> None:
        self._types = tuple(types)
        self._least = tuple(rule.least for rule in rules)
        self._most = tuple(rule.most for rule in rules)
        # Above this number, one more counted member makes no difference or breaks the rule.
        self._ends = tuple(rule.least if rule.most is None else rule.most for rule in rules)
        if prod(end + 1 for end in self._ends) > _MOST_NUMBERS:
            raise BadInput(
                "There are too many rules that count members to check them together; remove some,"
                " or use smaller numbers."
            )
        self._finishable = cache(self._can_finish)

    def usable(self, members: int) -> tuple[Type, ...]:
        """Return the types that a member of some household of so many members may have."""
        if not members:
            return ()
        start: _Numbers = (0,) * len(self._ends)
        return tuple(
            each
            for each in self._types
            if (then := self._with(start, each)) is not None and self._finishable(members - 1, then)
        )

    def possible(self, members: int) -> bool:
        """Return whether a household of so many members may obey all rules."""
        return self._finishable(members, (0,) * len(self._ends))

    def households(self, members: int) -> Iterator[tuple[Type, ...]]:
        """Yield the types of the members of households that obey all rules."""

        def more(left: int, first: int, numbers: _Numbers) -> Iterator[tuple[Type, ...]]:
            if not self._finishable(left, numbers):
                return
            if not left:
                yield ()
                return
            for place in range(first, len(self._types)):
                then = self._with(numbers, self._types[place])
                if then is not None:
                    for rest in more(left - 1, place, then):
                        yield (self._types[place], *rest)

        yield from more(members, 0, (0,) * len(self._ends))

    def _with(self, numbers: _Numbers, one: Type) -> _Numbers | None:
        """Return the numbers of counted members with one more; None if there are too many."""
        found = []
        limits = zip(numbers, self._ends, self._most, strict=True)
        for rule, (number, end, most) in enumerate(limits):
            then = number + (one >> rule & 1)
            if most is not None and then > most:
                return None
            found.append(min(then, end))
        return tuple(found)

    def _can_finish(self, left: int, numbers: _Numbers) -> bool:
        """Return whether so many more members can make the numbers obey all rules."""
        if not left:
            return all(have >= least for have, least in zip(numbers, self._least, strict=True))
        return any(
            self._finishable(left - 1, then)
            for each in self._types
            if (then := self._with(numbers, each)) is not None
        )


def zeros_of_counts(
    rules: Sequence[MemberRule], linked: LinkedColumns, domain: Domain, zeros: StructuralZeros
) -> tuple[Rule, ...]:
    """Return structural zeros of pair rows that follow from rules that count members.

    They are the sizes that no household can have, and the codes that no member of a household of
    some size can have, also of columns that other structural zeros tie to those of the rules. If a
    rule counts at most one member, two members that it counts are another. A household without
    members obeys every rule.

    Args:
        rules: The rules.
        linked: The columns of pair rows.
        domain: A domain with `members` and the person columns.
        zeros: The other structural zeros.

    Raises:
        BadInput: if the rules leave no household with members possible, or are too many.
    """
    if not rules:
        return ()
    types = PersonTypes(rules, domain, zeros)
    text = "; ".join(rule.text for rule in rules)
    usable = np.zeros(types.possible.shape, dtype=bool)
    counts: dict[tuple[Type, ...], MemberCounts] = {}
    with_members = [(code, members) for code, members in enumerate(linked.sizes) if members]
    sizes = []
    for code, members in with_members:
        here = types.at(code)
        if here not in counts:
            counts[here] = MemberCounts(rules, here)
        of_size = counts[here]
        if of_size.possible(members):
            sizes.append(code)
            usable[code] = types.possible[code] & np.isin(types.cells, of_size.usable(members))
    if not sizes:
        said = ", ".join(f"`{rule.text}`" for rule in rules[:5])
        raise BadInput(
            f"no household of any size can obey {said} together with the other rules; correct or"
            " remove one of them."
        )
    found = []
    impossible = tuple(code for code, _ in with_members if code not in sizes)
    if impossible:
        found.append(Rule((MEMBERS,), (impossible,), text, derived=True))
    for axis, name in enumerate(types.columns):
        others = tuple(other + 1 for other in range(len(types.columns)) if other != axis)
        now: NDArray[np.bool_] = np.asarray(usable.any(axis=others))[sizes]
        before: NDArray[np.bool_] = np.asarray(types.possible.any(axis=others))[sizes]
        for column in (name, OTHER + name):
            if never := _codes(np.asarray(before.any(axis=0) & ~now.any(axis=0))):
                found.append(Rule((column,), (never,), text, derived=True))
            for place, code in enumerate(sizes):
                if column != name and linked.sizes[code] < 2:
                    continue
                if gone := _codes(before[place] & ~now[place]):
                    found.append(Rule((MEMBERS, column), ((code,), gone), text, derived=True))
    given = (*zeros.rules, *found)
    for code in sizes:
        for name, gone in _also_excluded(linked, domain, StructuralZeros(given), code).items():
            if name in types.columns:
                continue
            found.append(Rule((MEMBERS, name), ((code,), gone), text, derived=True))
            if linked.sizes[code] >= 2:
                found.append(Rule((MEMBERS, OTHER + name), ((code,), gone), text, derived=True))
    for rule in rules:
        if rule.most == 1 and linked.max_members > 1:
            both = (*rule.columns, *(OTHER + name for name in rule.columns))
            found.append(Rule(both, (*rule.codes, *rule.codes), rule.text, derived=True))
    return tuple(found)


def _also_excluded(
    linked: LinkedColumns, domain: Domain, zeros: StructuralZeros, size: int
) -> dict[str, tuple[int, ...]]:
    """Return the codes that no member of a household can have, beyond those of each column alone.

    If a single member is the reference person, and no child is one, a single member is no child.
    Codes are excluded one rule at a time, until no rule excludes another.

    Args:
        linked: The columns of pair rows.
        domain: A domain with `members` and the person columns.
        zeros: The structural zeros.
        size: Code of the number of members.
    """
    persons = {*linked.person_columns}
    alone = {
        name: ~zeros.mask(domain.project((MEMBERS, name)))[size] for name in linked.person_columns
    }
    masks = {}
    for clique in zeros.cliques:
        own = tuple(name for name in clique if name in persons)
        wide = domain.project((MEMBERS, *own))
        if len(own) > 1 and {*clique} <= {MEMBERS, *own} and wide.size() <= _MOST_CELLS:
            masks[own] = ~zeros.mask(wide)[size]
    left = {name: codes.copy() for name, codes in alone.items()}
    changed = True
    while changed:
        changed = False
        for own, possible in masks.items():
            cells = possible
            for axis, name in enumerate(own):
                shape = [-1 if place == axis else 1 for place in range(len(own))]
                cells = cells & left[name].reshape(shape)
            for axis, name in enumerate(own):
                others = tuple(place for place in range(len(own)) if place != axis)
                now = cells.any(axis=others)
                changed = changed or bool((left[name] & ~now).any())
                left[name] = now
    gone = {name: _codes(alone[name] & ~left[name]) for name in alone}
    return {name: codes for name, codes in gone.items() if codes}


def _codes(among: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(code) for code in np.flatnonzero(among))


def type_zeros(
    rules: Sequence[MemberRule], one: Type, sizes: Mapping[str, int]
) -> tuple[Rule, ...]:
    """Return the structural zeros of a person of some type.

    Args:
        rules: The rules.
        one: The type.
        sizes: Number of codes of each person column.
    """
    found = []
    for number, rule in enumerate(rules):
        if not one >> number & 1:
            found.append(Rule(rule.columns, rule.codes, rule.text, derived=True))
            continue
        for name, codes in zip(rule.columns, rule.codes, strict=True):
            outside = tuple(code for code in range(sizes[name]) if code not in codes)
            found.append(Rule((name,), (outside,), rule.text, derived=True))
    return tuple(found)


def widen_schema(flat: Schema, linked: LinkedTables, missing_values: tuple[str, ...]) -> Schema:
    """Return the schema of the wide domain.

    Args:
        flat: Schema of the household columns, `members` and the person columns, in this order, with
            its rules. Its document is kept.
        linked: The two tables.
        missing_values: Texts of the files that mean a missing key.

    Returns:
        The same schema with the columns of another member. A structural zero over person columns
        also holds for another member; rules between columns are unchanged. Rules that count members
        have structural zeros, too. If households may be without members, person columns have a code
        for no member, and structural zeros for it.

    Raises:
        BadInput: if the rules that count members leave no household possible, or are too many.
    """
    persons = set(linked.person_columns)
    others = tuple(other_column(flat.column(name)) for name in linked.person_columns)
    also = tuple(
        replace(rule, columns=tuple(other(n) if n in persons else n for n in rule.columns))
        for rule in flat.zeros.rules
        if persons & {*rule.columns}
    )
    counted = zeros_of_counts(linked.rules, linked, flat.domain, flat.zeros)
    columns = (*flat.columns, *others)
    empty: tuple[Rule, ...] = ()
    if linked.min_members == 0:
        columns = tuple(replace(c, nobody=True) if c.name in persons else c for c in columns)
        empty = _zeros_of_empty(linked, columns)
    return replace(
        flat,
        columns=columns,
        zeros=StructuralZeros((*flat.zeros.rules, *also, *counted, *empty)),
        unit=ProtectedUnit(
            "household", linked.key, linked.max_members, missing_values, link=linked.link
        ),
        order=linked.columns,
        linked=linked,
    )


def _zeros_of_empty(linked: LinkedTables, columns: tuple[Column, ...]) -> tuple[Rule, ...]:
    """Return the structural zeros of households without members.

    A household has no members if and only if every person column has the code for no member. It
    then has no other member, either. Each pair of columns has its own rules, because the table of a
    pair uses only rules about its two columns.

    Args:
        linked: The two tables.
        columns: Columns of the wide domain.
    """
    size = {column.name: column.size for column in columns}
    none = {name: (size[name] - 1,) for name in (*linked.person_columns, *linked.others)}
    some = {name: tuple(range(size[name] - 1)) for name in none}
    none[MEMBERS], some[MEMBERS] = (0,), tuple(range(1, size[MEMBERS]))
    found = []
    for one, two in itertools.combinations((MEMBERS, *linked.person_columns), 2):
        found += [((one, two), (none[one], some[two])), ((one, two), (some[one], none[two]))]
    for one, two in itertools.product((MEMBERS, *linked.person_columns), linked.others):
        found.append(((one, two), (none[one], some[two])))
    return tuple(Rule(names, codes, "no member", derived=True) for names, codes in found)


def other_column(column: Column) -> Column:
    """Return a person column for another member of the same household.

    Its codes are those of the column, with that of missing, followed by one for no other member.
    """
    labels = column.code_labels()
    texts = [level.text for level in column.levels] or list(labels)
    texts += labels[len(texts) :]
    levels = [Level(text, label) for text, label in zip(texts, labels, strict=True)]
    return Column(
        name=other(column.name),
        kind="category" if not column.type.ordered else "ordinal",
        levels=(*levels, Level(NO_OTHER, NO_OTHER)),
        missing_values=(),
        description=f"{column.name} of another member of the household",
    )


def decided_by_codes(rule: ColumnRule, schema: Schema) -> bool:
    """Return whether the codes of a row decide whether it breaks a rule, whatever its values.

    If so, the structural zeros that follow from the rule express all of it.
    """
    bounds = {
        name: unit_bounds(schema.column(name), units)
        for name, units in units_by_column(rule.units).items()
    }

    def is_decided(condition: object) -> bool:
        if not isinstance(condition, AtMost):
            return True
        names = [name for name, _ in condition.terms]
        bins = {name: schema.column(name).bins for name in names}
        if len(names) > 1:
            single = all(
                (bounds[name].low[: bins[name]] == bounds[name].high[: bins[name]]).all()
                for name in names
            )
            return single and prod(bins.values()) <= MOST_CELLS
        sure, able = codes_that_hold(condition, schema.column(names[0]), bounds)
        return bool((sure == able).all())

    return all(is_decided(each) for clause in rule.clauses for each in clause)
