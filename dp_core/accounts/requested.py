"""The guarantee that a spec requests, and words about guarantees, stages and costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from dp_core.kernel.document import A_ROW, ProtectedUnit, Word
from dp_core.kernel.privacy import Neighbours, Relation, Stage, relation_of

USUAL_EPSILON = 100
"""Above it, an epsilon protects nobody in practice."""


USUAL_DELTA = Fraction(1, 1000)
"""Above it, a delta is a probability of disclosure that nobody would call protection."""


PAYING_STAGES: tuple[Stage, ...] = get_args(Stage)


OCCASIONAL: tuple[Stage, ...] = ("domain", "analyses")
"""Paying stages that a release has only if it needs them: for private bins or levels, and for
declared analyses. The others have a share in every plan, which may be 0."""


TABLE_STAGES: frozenset[str] = frozenset({"domain", "total", "one_way", "measure"})
"""Paying stages in which every event is a noisy table of counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The guarantee that a spec requests.

    Attributes:
        epsilon: Positive.
        delta: 0 for pure differential privacy, otherwise below 1.
        neighbours: Which pairs of files count as neighbours.
        protects: Who is protected; a row by default.
    """

    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
    protects: ProtectedUnit = A_ROW

    @property
    def unit(self) -> Word:
        """The word for who is protected."""
        return self.protects.word

    @property
    def max_rows(self) -> int:
        """Most rows of a person; 1 if a row or a household is the unit."""
        return self.relation.max_rows

    @property
    def max_members(self) -> int:
        """Most members of a household; 1 for other units."""
        return self.protects.most if self.unit == "household" else 1

    @property
    def shares(self) -> int:
        """Shares of a unit; 1 unless households are the units."""
        return self.relation.shares

    @property
    def relation(self) -> Relation:
        """The relation of every sensitivity of the release."""
        return relation_of(self.neighbours, self.protects)


def cost_unit(currency: str) -> str:
    """Return the unit of a release's costs.

    Args:
        currency: Kind of the release's currency.
    """
    return "epsilon" if currency == "pure" else "rho" if currency == "zcdp" else "mu²/2"


def unprotected(epsilon: Fraction, delta: Fraction) -> str:
    """Return why a total or a guarantee protects nobody, in sentences; "" if it does.

    >>> unprotected(Fraction(20), Fraction(1, 1000))
    ''
    """
    found = []
    if epsilon > USUAL_EPSILON:
        found.append(
            f"An epsilon of {float(epsilon):g} protects nobody in practice: statistical offices"
            " publish with totals of at most about 20."
        )
    if delta > USUAL_DELTA:
        found.append(
            f"A delta of {float(delta):g} is no protection: so large a share of the rows may be"
            " disclosed. Keep it far below one over the number of persons."
        )
    return " ".join(found)


def words_of(unit: ProtectedUnit) -> str:
    """Return who is protected, for people.

    >>> words_of(ProtectedUnit("row"))
    'one row'
    >>> words_of(ProtectedUnit("person", "id", 4))
    'one person (identified by id; at most 4 rows)'
    >>> words_of(ProtectedUnit("household", "home", 10))
    'one household (identified by home; at most 10 persons)'
    >>> words_of(ProtectedUnit("person", "id", waves=("2023", "2025")))
    'one person (identified by id), with all their rows in the waves 2023 to 2025,'
    """
    if unit.word == "row":
        return "one row"
    named = f"one {unit.word} (identified by {unit.identified_by}"
    if unit.link not in ("", unit.identified_by):
        named += f", its persons by {unit.link}"
    if unit.waves:
        first, last = unit.waves
        return f"{named}), with all their rows in the waves {first} to {last},"
    part = "person" if unit.word == "household" else "row"
    return f"{named}; at most {unit.most} {part}{'s' * (unit.most != 1)})"


def plain_unit(unit: ProtectedUnit) -> dict[str, Any]:
    """Return plain values of a unit, which `protected_unit` reads."""
    if unit.word == "row":
        return {"word": "row"}
    return {
        "word": unit.word,
        "identified_by": unit.identified_by,
        "most": unit.most,
        "missing_values": list(unit.missing_values),
        **({"waves": list(unit.waves)} if unit.waves else {}),
        **({"link": unit.link} if unit.link else {}),
    }
