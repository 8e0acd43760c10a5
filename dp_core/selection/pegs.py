"""PeGS: records by a Gibbs sampler over exact counts to which virtual records are added."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dp_core.domain import Clique, Domain
from dp_core.errors import BadInput
from dp_core.ledger.session import differing_draws, drawn_asks
from dp_core.marginals import Released, ReleasedKind
from dp_core.privacy import Neighbours, Stage
from dp_core.selection.base import AdaptiveSelector, Selection
from dp_core.selection.feature_choice import Score, check_given, chosen_features, given_features
from dp_core.selection.known_rows import (
    number_of_rows,
    require_public_rows,
    require_rows,
)
from dp_core.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from dp_core.curator import Curator

MOST_CELLS = 1 << 24
"""Cells of one column's table, which is counted whole: 128 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pegs(AdaptiveSelector):
    """Draw a few records, each column given a few others; every single draw is paid for.

    Park & Ghosh (2013), as Li, Karwa, Slavkovic & Steorts (2018), section 3.2, describe it. Virtual
    records a are added to every code: a = 1/(e^(epsilon/(M p)) - 1) for M records of p columns (M p
    draws, each of them log(1 + 1/a)-private). The paper's exponent epsilon B/p for B sweeps has no
    proof for B above 1: more sweeps do not cost less. With as many records as the file has, a is so
    large that the draws are nearly even; so few are drawn, and the sets repeat them.

    Attributes:
        records: Records drawn, M.
        sweeps: How often each column of a record is drawn, B. From the second time on, a
            combination of the others that the record was at before is drawn from evenly; under
            replace-one two sweeps or more cost twice as much.
        features: Columns that each one is drawn given, fewer where there are fewer.
        score: As of `sbhg`.
        given: As of `sbhg`.
    """

    records: int = 100
    sweeps: int = 1
    features: int = 1
    score: Score = "auto"
    given: tuple[tuple[str, ...], ...] = ()

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("records", "sweeps", "features"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a number from 1, not {getattr(self, name)}.")
        check_given(self.given)

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """Records."""
        return frozenset({"records"})

    @property
    def adaptive(self) -> bool:
        """Whether columns are chosen, and not given."""
        return not self.given

    def check(self, domain: Domain) -> None:
        """Refuse a single column, and tables that are too large to be counted whole."""
        if self.adaptive and len(domain) < 2:
            raise BadInput(
                "pegs chooses among other columns, and there is one only; take independent."
            )
        if self.given:
            largest = max(domain.size(clique) for clique in self.given)
        else:
            largest = math.prod(sorted(domain.sizes)[-1 - self.features :])
        if largest > MOST_CELLS:
            raise BadInput(
                f"A table of pegs could have {largest:,} cells, more than {MOST_CELLS:,}; take"
                " fewer features, or sbhg, which counts observed cells only."
            )

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        if not self.adaptive:
            return tuple((name, *rest) for name, rest in given_features(self.given, domain).items())
        return ((), *itertools.combinations(domain.columns, 2))

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        require_rows(neighbours, measured)
        if self.score == "mi":
            require_public_rows(neighbours, "Mutual information")

    def draws(self, domain: Domain, neighbours: Neighbours) -> int:
        """Return those of all records, whatever each column is drawn given."""
        alone = [(name,) for name in domain.columns]
        return differing_draws(drawn_asks(alone, self.records, self.sweeps), neighbours)

    def select(
        self,
        curator: Curator,
        known: Sequence[Released],
        *,
        domain: Domain,
        cost: Fraction,
        measure_cost: Fraction,
        zeros: StructuralZeros,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        replicate: int = 0,
    ) -> Selection:
        if self.adaptive:
            beside = chosen_features(
                curator,
                domain,
                cost,
                features=self.features,
                score=self.score,
                rows=round(number_of_rows(curator, domain, known)),
                replicate=replicate,
            )
        else:
            beside = given_features(self.given, domain)
        cliques = [(name, *others) for name, others in beside.items()]
        drawn = curator.draw_records(
            "measure",
            "records",
            cliques,
            measure_cost,
            records=self.records,
            sweeps=self.sweeps,
            replicate=replicate,
        )
        note = {"features": [list(clique) for clique in cliques], "records": self.records}
        return Selection(records=drawn, note=note)


METHOD = Pegs
