"""Households and persons of two tables as codes, household by household. Confidential side.

Every table is encoded like a single one (`dp_core.confidential.encoding`). Rules over household
columns and `members` are judged for each household. Rules with a person column are judged for each
person with the columns of the household; in such a row, only a person column can be set to missing.

Privacy:
    The codes of a household are a function of that household's row and of its members' rows alone,
    in the order in which the file has them: `key_links` states who its members are, and every rule
    is about single rows or about this household. So files that differ in one household with its
    members have the same pair rows except those of this household, and every household has the same
    number of shares (`dp_core.schema.linked.linked_tables`). Whether a file is refused depends
    on all its rows; like every refusal, it is outside epsilon.

All functions take and return arrays of whole households. Memory is linear in the rows, and so is
time except for two sorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.encoding import FIRST_ROWS, BrokenRule, settle_zeros
from dp_core.confidential.linked.key_links import Links
from dp_core.errors import SchemaViolation
from dp_core.kernel.codes import Codes, code_type
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.rules.file_rules import FileRules
from dp_core.schema.structure.member_rules import households_that_break
from dp_core.tables.household_rows import HouseholdRows

SHOWN = 5
"""Columns or rules that an error names."""


@dataclass(frozen=True, slots=True, repr=False)
class BrokenCount:
    """Rows of a table that break a rule. Confidential.

    Attributes:
        text: The rule.
        whose: What the rows are: `household` or `person`.
        rows: Their number.
        keys: Keys of the first households that have such rows.
    """

    text: str
    whose: str
    rows: int
    keys: tuple[str, ...]


class RulesBroken(SchemaViolation):
    """Households or persons break rules.

    Attributes:
        broken: Each rule that is broken, with examples. Confidential.
    """

    broken: tuple[BrokenCount, ...] = ()


def linked_codes(
    rules: FileRules,
    links: Links,
    homes: Mapping[str, Codes],
    persons: Mapping[str, Codes],
    home_units: Mapping[str, NDArray[np.int64]],
    person_units: Mapping[str, NDArray[np.int64]],
) -> HouseholdRows:
    """Return the codes of two tables household by household, after their rules are settled.

    Args:
        rules: The rules of linked tables.
        links: The members of each household.
        homes: Codes of the household columns, each of shape (households,); changed in place.
        persons: Codes of the person columns, each of shape (rows of the table of persons,).
        home_units: Values of household columns that rules compare (`RuleCheck.units_of`).
        person_units: Values of person columns that rules compare.

    Raises:
        SchemaViolation: if rows break a rule and no policy settles them.
    """
    linked = rules.linked
    assert linked is not None
    each = {name: codes[links.persons] for name, codes in persons.items()}
    settle_rules(
        rules,
        {**homes, MEMBERS: (links.sizes - linked.min_members).astype(code_type(len(linked.sizes)))},
        each,
        {**home_units, MEMBERS: links.sizes},
        {name: units[links.persons] for name, units in person_units.items()},
        links,
    )
    rows = HouseholdRows(
        np.stack([homes[name] for name in linked.household_columns]),
        links.sizes,
        np.stack([each[name] for name in linked.person_columns]),
    )
    _refuse_broken_counts(linked, rows, links)
    return rows


def _refuse_broken_counts(linked: LinkedTables, rows: HouseholdRows, links: Links) -> None:
    """Refuse households that break a rule that counts members.

    A household is judged as it is kept: after members are left out, and after other rules set
    columns to missing.
    """
    broken = []
    for rule in linked.rules:
        of = np.flatnonzero(households_that_break(rule, linked.person_columns, rows))
        broken.append(BrokenCount(rule.text, "household", of.size, _keys(links, of[:FIRST_ROWS])))
    _refuse(broken)


def _keys(links: Links, households: NDArray[np.intp]) -> tuple[str, ...]:
    return tuple(links.keys.take(pa.array(np.unique(households))).to_pylist())


def settle_rules(
    rules: FileRules,
    homes: Mapping[str, Codes],
    persons: Mapping[str, Codes],
    home_units: Mapping[str, NDArray[np.int64]],
    person_units: Mapping[str, NDArray[np.int64]],
    links: Links,
) -> None:
    """Set columns to missing in rows that break a rule, where the schema says so; in place.

    Args:
        rules: The rules of linked tables.
        homes: Codes of the household columns and of `members`, each of shape (households,).
        persons: Codes of the person columns, each of shape (persons,), household by household.
        home_units: Values of household columns and of `members` that rules compare.
        person_units: Values of person columns that rules compare.
        links: The members of each household.

    Raises:
        SchemaViolation: if rows break a rule and no policy settles them.
    """
    every = np.arange(links.sizes.size)
    _refuse(_refused("household", settle_zeros(rules, homes, home_units), every, links))
    named = {name for rule in rules.row_rules for name in rule.columns}
    of = np.repeat(every, links.sizes)
    codes = {name: codes[of] for name, codes in homes.items() if name in named}
    units = {name: units[of] for name, units in home_units.items() if name in named}
    # A rule of one person changes no column of a household, which several persons share.
    broken = settle_zeros(rules, {**codes, **persons}, {**units, **person_units}, fixed=homes)
    _refuse(_refused("person", broken, of, links))


def _refused(
    whose: str, broken: Sequence[BrokenRule], of: NDArray[np.intp], links: Links
) -> list[BrokenCount]:
    """Return, by rule, the rows that no policy settles; `of` has the household of each row."""
    return [
        BrokenCount(each.rule.text, whose, each.refused, _keys(links, of[list(each.first)]))
        for each in broken
        if each.refused
    ]


def _refuse(broken: Sequence[BrokenCount]) -> None:
    """Refuse rows of one table that break a rule."""
    broken = [each for each in broken if each.rows]
    if not broken:
        return
    texts = ", ".join(f"`{each.text}`" for each in broken[:SHOWN])
    error = RulesBroken(
        f"The files have {broken[0].whose}s that break {texts} of the schema; correct the files or"
        " the rule.",
        internal="\n".join(
            f"{each.rows} rows: {each.text}; first households: {', '.join(each.keys)}"
            for each in broken
        ),
    )
    error.broken = tuple(broken)
    raise error
