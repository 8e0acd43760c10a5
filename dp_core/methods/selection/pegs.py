"""PeGS: records drawn by a Gibbs sampler over exact counts plus virtual records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dp_core.client.released import ReleasedKind
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.column_draws import differing_draws
from dp_core.kernel.privacy import Relation
from dp_core.methods.drawn_answers import draw_records
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.candidates.feature_choice import FeatureChoice
from dp_core.methods.selection.selector import Selection, Selector

MOST_CELLS = 1 << 24
"""Largest number of cells of one column's table, all of which are counted: 128 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pegs(FeatureChoice, Selector):
    """Draw a few records by Gibbs sampling from private conditional distributions.

    Park & Ghosh (2013), as described by Li, Karwa, Slavkovic & Steorts (2018), section 3.2. Each
    column is drawn given a few others, from exact counts plus a virtual records per code, with a =
    1/(e^(epsilon/(M p)) - 1) for M records of p columns (M p draws, each of which is log(1 +
    1/a)-private). The paper's exponent epsilon B/p for B sweeps has no proof for B above 1: more
    sweeps do not cost less. For as many records as the file has, a would be so large that the draws
    are nearly uniform. So only a few records are drawn, and the sets repeat them.

    Attributes:
        records: Number of records drawn, M.
        sweeps: Number of times each column of a record is drawn, B. From the second sweep on, if
            the record had the same values in the other columns before, the column is drawn
            uniformly. Under replace-one two or more sweeps cost twice as much.
    """

    records: int = 100
    sweeps: int = 1

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    gives: ClassVar[frozenset[ReleasedKind]] = frozenset({"records"})

    def __post_init__(self) -> None:
        FeatureChoice.__post_init__(self)
        for name in ("records", "sweeps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is a number from 1, not {getattr(self, name)}.")

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return (*self.scores, "drawn-records")

    def check(self, domain: Domain) -> None:
        """Raise BadInput for a single column, and for tables that are too large to count."""
        if self.adaptive and len(domain) < 2:
            raise BadInput("pegs needs at least two columns, and there is one; use independent.")
        if (largest := self.most_cells(domain)) > MOST_CELLS:
            raise BadInput(
                f"A table of pegs could have {largest:,} cells, more than {MOST_CELLS:,}; use"
                " fewer features, or sbhg, which counts observed cells only."
            )

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        # The tables to draw from are known beforehand only if `given` states them.
        return FeatureChoice.needs(self, domain) if self.adaptive else self.given_tables(domain)

    def draws(self, domain: Domain, relation: Relation) -> int:
        """Return the number of draws for all records and sweeps."""
        return differing_draws(len(domain), self.records, self.sweeps, relation)

    def select(self, inputs: MethodInputs) -> Selection:
        cliques = self.tables_of_each(inputs)
        drawn = draw_records(
            inputs.curator,
            "measure",
            "records",
            cliques,
            inputs.measure_cost,
            records=self.records,
            sweeps=self.sweeps,
            replicate=inputs.replicate,
        )
        return Selection(records=drawn)


METHOD = Pegs
