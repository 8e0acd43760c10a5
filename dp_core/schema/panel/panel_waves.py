"""Which columns of a person's record belong to which wave of a panel. Public.

A file of a panel has a row for each person and wave. A release of it has one record for each
person. A column that is the same in every wave is one column of the record. Any other column of
the file, such as `work`, becomes one column for each wave, such as `work_2023` and `work_2024`.

If persons may be absent in a wave, the record says for each wave whether the person takes part
(`in_2023`). In a wave without the person, a category with listed levels has the level
`ABSENT`, and every other column is missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Repeated = Literal["reject", "keep_one"]
"""What happens to several rows of one person in one wave."""

Disagreeing = Literal["first", "reject"]
"""What happens if a column that is the same in every wave has two values for one person."""

ABSENT = "(not in the wave)"
"""Level of a category with listed levels in a wave in which the person does not take part."""
TAKES_PART = ("yes", "no")
"""Levels of the columns that say whether the person takes part in a wave."""
IN = "in"
"""First part of the name of such a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The waves of a panel, and where a record has their values.

    Attributes:
        person: Column of the file that identifies persons.
        waves: The waves, as the file names them, in their order.
        columns: For each column of the file that varies between waves, its name in the record for
            each wave that has it, in the order of the waves. In a schema restricted to some
            columns, some of these names are not columns of the schema.
        wave: Column of the file that holds the wave; None if each wave has a file of its own.
        takes_part: For each wave, the column of the record that says whether the person takes part
            in it; empty if everyone takes part in every wave.
        required: Columns of the record that are missing only for persons who do not take part: the
            schema does not state `missing: level` of them.
        ignore_waves: Waves whose rows are left out; none by default.
        repeated: What happens to several rows of one person in one wave.
        disagreeing: What happens if a person's values of a constant column differ between waves.
    """

    person: str
    waves: tuple[str, ...]
    columns: Mapping[str, Mapping[str, str]]
    wave: str | None = None
    takes_part: Mapping[str, str]
    required: tuple[str, ...] = ()
    ignore_waves: tuple[str, ...] = ()
    repeated: Repeated = "reject"
    disagreeing: Disagreeing = "first"

    @property
    def balanced(self) -> bool:
        """Whether everyone takes part in every wave."""
        return not self.takes_part

    @property
    def parts(self) -> tuple[str | None, ...]:
        """The wave of each file: None for the one file whose rows name their wave."""
        return self.waves if self.wave is None else (None,)

    def name(self, column: str, wave: str) -> str:
        """Return the name, in the record, of a column of the file in a wave.

        Raises:
            KeyError: if the column is constant or unknown, or the wave does not have it.
        """
        return self.columns[column][wave]

    def place(self, name: str) -> tuple[str, str] | None:
        """Return the column of the file and the wave of a column of the record.

        Args:
            name: Column of the record.

        Returns:
            For `work_2023` the pair of `work` and `2023`. For a column that says whether the person
            takes part, the pair of `IN` and the wave. None for a constant column.
        """
        for column, names in self.columns.items():
            for wave, one in names.items():
                if one == name:
                    return column, wave
        return next(((IN, wave) for wave, one in self.takes_part.items() if one == name), None)

    def sources(self, names: Collection[str], wave: str | None = None) -> tuple[str, ...]:
        """Return the columns of the file from which columns of the record are made.

        They are in the order in which the record has them, without `person` and `wave`.

        Args:
            names: Columns of the record.
            wave: Only those that this wave has; None (the default) for all.
        """
        made = {one for each in self.columns.values() for one in each.values()}
        made |= {*self.takes_part.values()}
        of = {name: name for name in names if name not in made}
        for column, each in self.columns.items():
            of |= {one: column for at, one in each.items() if one in names and wave in (None, at)}
        return tuple(dict.fromkeys(of[name] for name in names if name in of))


def wave_column(column: str, wave: str) -> str:
    """Return the name of a column of the record for one wave.

    >>> wave_column("work", "2023"), wave_column("work", "2023-Q1")
    ('work_2023', 'work_2023_Q1')
    """
    return f"{column}_{re.sub(r'[^A-Za-z0-9]+', '_', wave).strip('_')}"
