"""Profiles of the columns of a partition, for validation. Confidential side.

A profile has the distinct texts of a category, the bounds of a number, and the number of rows with
each problem. Its size does not depend on the size of the partition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dp_core.confidential.encoding import Encoder
from dp_core.confidential.original_values import decimals
from dp_core.kernel.coding.coding_rule import CodingRule
from dp_core.kernel.coding.encoder import RuleEncoder, count_problems
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.raw_values import State, Values
from dp_core.schema.definition import Column

UNKNOWN_TEXTS = 20
"""Most texts that are not levels in a profile, which counts all of them."""


@dataclass(slots=True, eq=False, repr=False)
class Profile:
    """One column of one partition. Confidential.

    Attributes:
        rows: Number of rows of the partition.
        low, high: Smallest and largest value of an integer, number or date (day ordinal) column;
            None without a readable value.
        texts: Distinct texts of a category or ordinal: all its levels that occur, and at most
            `UNKNOWN_TEXTS` others. Missing values are not among them.
        problems: Number of rows with each problem that occurs.
    """

    rows: int = 0
    low: int | float | None = None
    high: int | float | None = None
    texts: set[str] = field(default_factory=set)
    problems: Counter[Problem] = field(default_factory=Counter)


class Profiler:
    """Accumulates batches of one column in profiles.

    Attributes:
        column: The schema's column.
        encoder: Encoder of the column.

    Args:
        column: The schema's column.
        rule: Rule by which it is coded; None (the default) for that of the column.
    """

    def __init__(self, column: Column, rule: CodingRule | None = None) -> None:
        self.column = column
        self.encoder = Encoder(column) if rule is None else RuleEncoder(rule)
        self._levels = {level.text for level in column.levels}

    def add(self, profile: Profile, values: pa.Array) -> Values:
        """Add a batch of raw values to the profile of their partition; return the typed values."""
        typed = self.encoder.reader.read(values)
        profile.rows += len(values)
        problem = self.encoder.problem(typed)
        if problem is not None:
            profile.problems.update(count_problems(problem, typed))
        if self.column.levels:
            self._add_texts(profile, typed)
        else:
            self._add_bounds(profile, typed)
        return typed

    def merge(self, whole: Profile, part: Profile) -> None:
        """Add the profile of a partition to that of the whole file, which stays as small."""
        whole.rows += part.rows
        whole.problems.update(part.problems)
        known = part.texts & self._levels
        room = UNKNOWN_TEXTS - len(whole.texts - self._levels)
        whole.texts |= known | set(sorted(part.texts - known - whole.texts)[: max(room, 0)])
        low, high = part.low, part.high
        if low is not None and high is not None:
            whole.low = low if whole.low is None else min(whole.low, low)
            whole.high = high if whole.high is None else max(whole.high, high)

    def _add_texts(self, profile: Profile, typed: Values) -> None:
        assert typed.index is not None
        assert typed.state is not None
        assert typed.texts is not None
        # A dictionary may list texts that do not occur.
        occurs = np.bincount(typed.index, minlength=typed.data.size)[:-1] > 0
        known = occurs & (typed.state[:-1] == State.VALUE)
        levels = self.column.levels
        profile.texts.update(levels[code].text for code in np.unique(typed.data[:-1][known]))
        unknown = np.flatnonzero(occurs & (typed.state[:-1] == State.UNKNOWN))
        room = UNKNOWN_TEXTS - len(profile.texts - self._levels)
        profile.texts.update(typed.texts[int(place)].as_py() for place in unknown[:room])

    def _add_bounds(self, profile: Profile, typed: Values) -> None:
        data = typed.data
        if typed.index is not None:
            occurs = np.bincount(typed.index, minlength=data.size) > 0
            assert typed.state is not None
            data = data[occurs & (typed.state == State.VALUE)]
        elif typed.state is not None:
            data = data[typed.state == State.VALUE]
        if data.size:
            ends = np.array([data.min(), data.max()])
            low, high = (decimals(ends) if self.column.type.continuous else ends).tolist()
            profile.low = low if profile.low is None else min(profile.low, low)
            profile.high = high if profile.high is None else max(profile.high, high)
