"""What may be asked of the data: whole numbers with proven sensitivities, described by plain JSON.

A `TableStatistic` is computed from exact marginals, a `Sum` from the cells that hold a record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.cost.sensitivity import Bounds
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter, Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.descriptions import (
    content_digest,
    fields_from_json,
    fields_json,
    whole,
)
from dp_core.kernel.questions.whole_numbers import MOST_CELLS


class ClaimedCodes(NamedTuple):
    """The number of codes of a column that the bounds of a statistic assume.

    Attributes:
        column: Name of the column.
        codes: Number of codes.
        or_missing: Whether the column may have one further code, which means missing.
    """

    column: str
    codes: int
    or_missing: bool


class Statistic(ABC):
    """A vector of whole numbers computed from the confidential file.

    The question is public; the answer is public only after noise is added. All values are whole
    numbers, in a unit that the class states. Each class proves how much one row can change its
    values, for any number of rows; `dp_core.kernel.cost.sensitivity.of_unit` derives the bounds
    for a person with several rows. A class whose bound holds only for a fixed number of rows raises
    an exception for add-remove.

    Attributes:
        NAME: The `name` in `to_json`, which identifies the class in the list of vetted statistics.
        IN_SHARES: Whether it may be asked of a file that is counted in shares; by default not. Then
            S times every count must give S times every value, apart from rounding to whole numbers,
            with public numbers that are compared with counts also multiplied by S (`in_shares`).
            Only so do values computed from counts in shares, divided by the number of shares,
            answer the question about households.
        NOT_IN_SHARES: If it may not, the reason, and a sentence that names what to use instead.
    """

    __slots__ = ()

    NAME: ClassVar[str]
    IN_SHARES: ClassVar[bool] = False
    NOT_IN_SHARES: ClassVar[str] = ""

    @property
    @abstractmethod
    def length(self) -> int:
        """Number of entries."""

    @abstractmethod
    def of_row(self, neighbours: Neighbours) -> Bounds:
        """Return bounds on what one row changes, with the proof.

        They are for the change of any one entry, the sum of the changes of all entries, and the sum
        of their squares.
        """

    def largest_change(self, neighbours: Neighbours) -> int:
        """Return the bound on the change that one row makes to any one entry."""
        return self.of_row(neighbours)[0]

    def l1(self, neighbours: Neighbours) -> int:
        """Return the bound on the sum of the changes that one row makes to all entries."""
        return self.of_row(neighbours)[1]

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return the bound on the sum of the squares of these changes."""
        return self.of_row(neighbours)[2]

    @abstractmethod
    def exact(self, counter: Counter) -> NDArray[np.int64]:
        """Return the exact values, shape (length,). Confidential."""

    def in_shares(self, shares: int) -> Self:  # noqa: ARG002
        """Return the same question to a file that is counted in shares.

        Values are then S times as large, in the statistic's unit of shares instead of records. The
        bounds for one row hold for one share. By default it is the same statistic: that is right
        for one that is computed from counts alone.

        Args:
            shares: Number S of shares of a unit.
        """
        return self

    def claimed_codes(self) -> Iterable[ClaimedCodes]:
        """Return the numbers of codes that the bounds assume; by default none."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Return `NAME` as `name` and the public parameters that decide the sensitivity.

        By default they are all fields.
        """
        return {"name": self.NAME, **fields_json(self)}

    def asks(self) -> dict[str, Any]:
        """Return `Step.asks`: `to_json`, and if that is not all, a digest of the whole question.

        So a published receipt identifies the question, however large it is.
        """
        stated = self.to_json()
        if type(self).to_json is Statistic.to_json:
            return stated
        return {**stated, "question": content_digest(self)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Statistic:
        """Return the statistic that `to_json` described, if it has all fields.

        Raises:
            ValueError: if the document is not exactly what `to_json` returns (or another error of
                `GARBAGE`).
        """
        found = fields_from_json(cls, document)
        # privacy: a key that is ignored could change what the description means.
        if found.to_json() != document:
            raise ValueError("The description has missing or unknown fields.")
        return found.of_size()

    def of_size(self) -> Self:
        """Return the statistic if its answer has a size that can be counted and drawn.

        Raises:
            ValueError: if it has more than `MOST_CELLS` entries.
        """
        if self.length > MOST_CELLS:
            raise ValueError(f"The answer of a question has at most {MOST_CELLS:,} entries.")
        return self

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        """Return the bounds for one row of the statistic that `to_json` described.

        Args:
            document: The result of `to_json`, possibly read from an untrusted receipt.
            neighbours: Neighbouring relation between single rows.

        Raises:
            ValueError: if `to_json` cannot have returned the document (or another error of
                `GARBAGE`).
        """
        return cls.read(document).of_row(neighbours)


class TableStatistic(Statistic):
    """A statistic computed from exact marginals."""

    __slots__ = ()

    if TYPE_CHECKING:  # at run time it would be the default of a field of this name

        @property
        def cliques(self) -> tuple[Clique, ...]:
            """Cliques of the marginals that it is computed from."""

    @abstractmethod
    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        """Return the exact values, shape (length,). Confidential."""

    def exact(self, counter: Counter) -> NDArray[np.int64]:
        return self.compute(counter.count(self.cliques))


class TableScores(TableStatistic):
    """A table statistic whose receipts state only what decides its sensitivity.

    Attributes:
        STATED: Fields and properties that a receipt states, beside the name.
    """

    __slots__ = ()

    STATED: ClassVar[tuple[str, ...]] = ("length",)

    @classmethod
    @abstractmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:
        """Return how far one row moves an entry of any statistic of which a receipt states this.

        Args:
            stated: What `to_json` returned, or what somebody claims that it returned.
            neighbours: Neighbouring relation between single rows.
        """

    @classmethod
    def entries(cls, stated: Mapping[str, Any]) -> int:
        """Return the number of entries, all of which can change by `change` at once."""
        return whole(stated, "length")

    def to_json(self) -> dict[str, Any]:
        return {"name": self.NAME, **{name: getattr(self, name) for name in self.STATED}}

    def of_row(self, neighbours: Neighbours) -> Bounds:
        return self.required(self.to_json(), neighbours)

    @classmethod
    def required(cls, document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        change, length = cls.change(document, neighbours), cls.entries(document)
        return change, change * length, change**2 * length


class Sum(Statistic):
    """A sum over records, computed from the cells that hold a record.

    The columns may have any number of codes. A statistic that is not a count is first rounded to a
    fixed grid; the bounds are for the rounded values.
    """

    __slots__ = ()

    @property
    def clique(self) -> Clique:
        """Columns that it is computed from."""
        return tuple(each.column for each in self.claimed_codes())

    @abstractmethod
    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact values, shape (length,). Confidential.

        Args:
            cells: Codes of the cells that hold a record, shape (cells, columns), in the clique's
                order of columns.
            counts: Number of records in each cell, shape (cells,), all positive.
        """

    @abstractmethod
    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return bounds on the L1 and the squared L2 norm of what one row changes, with the proof.

        Both are at least 1.
        """

    @abstractmethod
    def claimed_codes(self) -> Sequence[ClaimedCodes]:
        """Return its columns, each with the number of codes that the bounds assume."""

    def of_row(self, neighbours: Neighbours) -> Bounds:
        # One entry changes by at most the sum of all changes.
        l1, l2_squared = self.norms(neighbours)
        return l1, l1, l2_squared

    def exact(self, counter: Counter) -> NDArray[np.int64]:
        return self.total(*counter.observed(self.clique))


def records_moved(neighbours: Neighbours) -> int:
    """Return how many records come or go if one row changes: to replace it is to do both."""
    return 1 if neighbours == "add-remove" else 2


def check_codes(statistic: Statistic, domain: Domain) -> None:
    """Refuse a statistic whose bounds assume other columns or codes than the file has.

    Raises:
        ValueError: if a column does not exist, or has another number of codes.
    """
    sizes = dict(zip(domain.columns, domain.sizes, strict=True))
    for name, codes, or_missing in statistic.claimed_codes():
        if name not in sizes:
            raise ValueError(f"{statistic.NAME} asks about {name!r}, which is not a column.")
        # privacy: the bounds are proven for the claimed codes only.
        if codes != sizes[name] and not (or_missing and codes == sizes[name] - 1):
            what = "positions" if or_missing else "codes"
            raise ValueError(
                f"{statistic.NAME} assumes that {name!r} has {codes} {what}, but it has"
                f" {sizes[name]} codes."
            )


def claims(
    columns: Collection[str], codes: Collection[int], *, or_missing: bool = False
) -> list[ClaimedCodes]:
    """Return one `ClaimedCodes` for each column.

    Raises:
        ValueError: if there are not as many numbers of codes as columns.
    """
    if len(columns) != len(codes):
        raise ValueError("Every column of a question needs a size.")
    pairs = zip(columns, codes, strict=True)
    return [ClaimedCodes(name, number, or_missing) for name, number in pairs]
