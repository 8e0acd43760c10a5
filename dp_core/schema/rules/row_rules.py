"""The rules that every row obeys, one class for each kind of rule.

Whatever judges, lists or settles rules asks `row_rules` and need not know the kinds. Rules that
count members are about households and not among them (`dp_core.schema.structure.member_rules`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import ColumnRule, RuleRows, Units, any_holds
from dp_core.schema.structure.structural_zeros import Rule
from dp_core.tables.cliques import Nesting

_R = TypeVar("_R", Rule, ColumnRule, Nesting)


@dataclass(frozen=True, slots=True)
class RowRule(ABC, Generic[_R]):
    """A rule that every row obeys; a kind of rule is a class that derives from this one.

    Attributes:
        rule: The rule.
    """

    rule: _R

    @property
    def text(self) -> str:
        """The rule as written in the schema."""
        return self.rule.text

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the domain that it is about, in its order."""
        return self.rule.columns

    @property
    @abstractmethod
    def key(self) -> str:
        """Key of the schema that states it."""

    @property
    def units(self) -> tuple[Units, ...]:
        """Units of the columns whose values it compares; empty if codes decide it."""
        return ()

    @classmethod
    @abstractmethod
    def of(cls, schema: Schema) -> Iterator[RowRule[_R]]:
        """Yield the rules of this kind that a schema states."""

    @abstractmethod
    def breaks(self, rows: RuleRows) -> NDArray[np.bool_]:
        """Return which rows break the rule, shape (rows,)."""

    def says(self, schema: Schema) -> object:
        """Return what it says as plain values, by codes of levels and bins instead of labels."""
        edges = [[str(edge) for edge in schema.column(name).edges] for name in self.columns]
        return ["rule", repr(self.rule), edges]


class Impossible(RowRule[Rule]):
    """Codes that cannot occur together.

    Boxes that follow from rules between columns are left out: these rules judge them.
    """

    @property
    def key(self) -> str:
        return "impossible"

    @classmethod
    def of(cls, schema: Schema) -> Iterator[Impossible]:
        return (cls(rule) for rule in schema.zeros.rules if not rule.derived)

    def breaks(self, rows: RuleRows) -> NDArray[np.bool_]:
        pairs = zip(self.rule.columns, self.rule.codes, strict=True)
        return reduce(np.logical_and, (np.isin(rows.codes[name], codes) for name, codes in pairs))


class Between(RowRule[ColumnRule]):
    """A rule between columns."""

    @property
    def key(self) -> str:
        return self.rule.key

    @property
    def units(self) -> tuple[Units, ...]:
        return self.rule.units

    @classmethod
    def of(cls, schema: Schema) -> Iterator[Between]:
        return map(cls, schema.rules)

    def breaks(self, rows: RuleRows) -> NDArray[np.bool_]:
        return any_holds(self.rule.clauses, rows)


class Within(RowRule[Nesting]):
    """An area lies within another one."""

    @property
    def key(self) -> str:
        return "within"

    @classmethod
    def of(cls, schema: Schema) -> Iterator[Within]:
        return map(cls, schema.nestings)

    def breaks(self, rows: RuleRows) -> NDArray[np.bool_]:
        upper, lower = (rows.codes[name] for name in self.columns)
        return self.rule.breaks(upper, lower)

    def says(self, schema: Schema) -> object:
        return ["nesting", [*self.columns], self.rule.parents.tolist()]


KINDS: tuple[type[RowRule[Any]], ...] = (Impossible, Between, Within)
"""The kinds of rules, in the order in which broken rules are settled."""


def row_rules(schema: Schema) -> tuple[RowRule[Any], ...]:
    """Return the rules about rows that a schema states, in the order in which they are settled."""
    return tuple(rule for kind in KINDS for rule in kind.of(schema))
