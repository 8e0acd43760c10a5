"""Questions of extensions whose mechanism does more than add noise to the answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.extensions import DRAWN_CELLS, DRAWN_RECORDS, SPARSE_TABLE, extension
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.descriptions import rebuilt


class DrawnQuestion(ABC):
    """A question whose answer an extension draws: a frozen dataclass of plain public values.

    Attributes:
        NAME: `name` of the question in a receipt.
        WHAT: What it does, at the beginning of a sentence.
        INSTEAD: What to do where households are the units.
    """

    __slots__ = ()

    NAME: ClassVar[str]
    WHAT: ClassVar[str]
    INSTEAD: ClassVar[str]

    @abstractmethod
    def event(self, relation: Relation) -> Event:
        """Return the event with the scale that the question proposes; its cost follows from it."""

    @abstractmethod
    def shape(self, domain: Domain) -> tuple[int, ...]:
        """Return the shape of what is drawn, which does not depend on the data.

        Raises:
            ValueError: if the question does not fit the domain.
        """
        # privacy: this is before the charge. A draw that fails for some values only would be
        # repeated until it succeeds, under one charge.

    @abstractmethod
    def asks(self, domain: Domain) -> dict[str, object]:
        """Return `Step.asks`: what anyone needs to check the cost."""

    @classmethod
    @abstractmethod
    def covered(cls, asks: Mapping[str, Any], event: Event, relation: Relation) -> bool:
        """Return whether an event covers the question that `asks` described.

        Raises:
            Exception: one of `GARBAGE` if it describes none.
        """

    @abstractmethod
    def draw(self, counter: Counter, domain: Domain, grant: Grant) -> NDArray[np.int64]:
        """Return what is drawn from the counts of the file, as it is stored and published."""


def rebuilt_extension(question: DrawnQuestion) -> DrawnQuestion:
    """Return the question of an extension that has the name and the plain values of an object.

    Args:
        question: The object of a method; only the plain values of its fields are used.

    Raises:
        ValueError: if no extension has these.
    """
    # privacy: an object of a method could claim any event, or draw something else.
    name = question.NAME
    if type(name) is not str or name not in (SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS):
        raise ValueError("No extension draws the answer to a question of that name.")
    made: DrawnQuestion = rebuilt(extension(name), question)
    return made
