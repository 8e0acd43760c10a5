"""Division of the budget among columns, pairs and triples that minimises the expected error.

The method forecasts the error of a division of the budget from the schema, the noisy one-way tables
and a noisy vector of all pairs' dependence. It minimises this forecast: it measures single columns
only if noise would hide everything else, otherwise some or all pairs, and also triples if the
budget allows. All inputs of the choice are public or charged.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import ReleasedKind, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.privacy import Neighbours, Relation, Stage
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.replicates.posterior.column_draws import draw_column
from dp_core.methods.replicates.posterior.nested_draws import counts_of
from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.costs import DEPENDENCES, Costs, typical_columns
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.budget.measurable_parts import measurable_parts
from dp_core.methods.selection.budget.residual_balance import balance, expected_error
from dp_core.methods.selection.budget.wanted_shares import Basis, CertainParts, for_tables, together
from dp_core.methods.selection.budget.workload import WantedTable, normalise
from dp_core.methods.selection.budget.workload import shares as allocate
from dp_core.methods.selection.candidates.pair_trends import SHARE, chosen_trends
from dp_core.methods.selection.candidates.pairs import (
    dependences,
    look,
    one_way_tables,
    pairs_up_to,
)
from dp_core.methods.selection.candidates.private_looks import (
    CHOICES,
    SCORES,
    Gains,
    joined_columns,
    look_at_products,
    look_at_wide,
)
from dp_core.methods.selection.selector import (
    Certain,
    Expected,
    Selection,
    Selector,
    Terms,
    terms_of,
)
from dp_core.tables.cliques import number_of_cliques

_MOST_PAIR_CELLS = 2**20  # of a larger pair almost every cell is empty
_MOST_SCORED = 2000  # pairs whose dependence is asked at once; in wider files noise would hide it
_DENSE = 0.05  # relative reduction of the error by measuring usual pairs for which all are scored
_SPREAD = -np.log(1 - (np.arange(20) + 0.5) / 20)  # quantiles of an exponential variable of mean 1
_MOST_JOINT_CELLS = 2**12
_MOST_JOINT_COLUMNS = 10  # of a larger table, the noise of its parts is not computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Selector):
    """Divide the budget among columns, pairs and triples to minimise the expected error.

    Attributes:
        order: Largest number of columns of a measured table or interaction: 1, 2 or 3. In a file
            with nested columns, no triples are measured.
        basis: `interactions`: triples, and pairs whose table would mostly repeat the one-way
            tables, are measured without their margins, which costs less. `tables`: complete
            tables of columns and pairs are measured, and no triples.
        candidates: `all`: the dependence of all pairs is scored. `forest`: some pairs are scored
            first; if they do not depend, a forest of pairs is chosen privately, and only its edges
            are scored. `auto`: `forest` if there are more than 2,000 pairs, whose scores noise
            would hide.
        at_once: Whether the whole budget measures tables that are known beforehand, in one step and
            without scores. `columns`: all one-way tables. `joint`: the table of all columns.
            `never`: neither. `auto`: what the plan decides by the schema and the budget
            (`dp_core.plan.forecast.one_step`); a selector by itself takes it for `never`.
        tables_share: Part of the measuring budget for the workload, if there is one; what is
            measured with it does not depend on the data. The rest is divided as without a workload,
            given what the workload's measurements tell. With 1, nothing else is measured.
        workload: The spec's `tables`; empty by default.
    """

    measures_trends: ClassVar[bool] = True

    order: Literal[1, 2, 3] = 3
    basis: Literal["interactions", "tables"] = "interactions"
    candidates: Literal["auto", "all", "forest"] = "auto"
    at_once: Literal["auto", "never", "columns", "joint"] = "auto"
    tables_share: Fraction = Fraction(1, 2)
    workload: tuple[WantedTable, ...] = field(default=(), metadata=NO_OPTION)

    @property
    def adaptive(self) -> bool:
        """Whether it asks about pairs: unless `order` is 1 or everything is known beforehand."""
        everything = self.workload and self.tables_share == 1
        return self.order > 1 and not everything and not self.in_one_step

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return ("indif",) if self.adaptive else ()

    @property
    def in_one_step(self) -> bool:
        """Whether the whole budget measures tables that are known beforehand."""
        return self.at_once in ("columns", "joint")

    @property
    def idle(self) -> frozenset[Stage]:
        if self.in_one_step:
            return frozenset({"one_way", "select"})
        return frozenset() if self.adaptive else frozenset({"select"})

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        apart = self.basis == "interactions" and not self.in_one_step
        return frozenset({"tables", "interactions"} if apart else {"tables"})

    def check(self, domain: Domain) -> None:
        if self.in_one_step and self.workload:
            raise BadInput(
                f"`at_once: {self.at_once}` measures no other tables; remove it, or `tables`."
            )
        if self.at_once != "joint":
            return
        if domain.size() > _MOST_JOINT_CELLS or len(domain) > _MOST_JOINT_COLUMNS:
            raise BadInput(
                f"The table of all columns has {len(domain)} columns and {domain.size():.3g} cells;"
                f" `at_once: joint` takes at most {_MOST_JOINT_COLUMNS} columns and"
                f" {_MOST_JOINT_CELLS:,} cells. Remove this option."
            )

    def fixed_selection(self, domain: Domain) -> Selection | None:
        if self.at_once == "columns":
            cliques = tuple((name,) for name in domain.columns)
            return Selection(cliques, allocate(domain.sizes, "epsilon"))
        return Selection((domain.columns,), (Fraction(1),)) if self.at_once == "joint" else None

    def check_basics(
        self,
        neighbours: Neighbours,  # noqa: ARG002
        measured: Collection[Stage],
    ) -> None:
        if "one_way" not in measured and not self.in_one_step:
            raise BadInput(
                "`select: auto` looks at one-way tables first: give them a part of the budget, such"
                " as one_way: {share: 0.1}."
            )

    def __post_init__(self) -> None:
        if not 0 < self.tables_share <= 1:
            raise ValueError(
                f"tables_share must be above 0 and at most 1, not {self.tables_share}."
            )

    def certain(self, domain: Domain, terms: Terms) -> Certain | None:
        if not self.workload:
            return Selector.certain(self, domain, terms)
        share = self.tables_share
        terms = dataclasses.replace(terms, measure=terms.measure * share)
        basis = Basis(interactions=self.basis == "interactions")
        return Certain(for_tables(self.workload, domain, terms, basis), share)

    def _by_forest(self, domain: Domain) -> bool:
        """Return whether a forest of pairs may be chosen instead of scoring all pairs."""
        if not self.adaptive or self.candidates != "auto":
            return self.adaptive and self.candidates == "forest"
        return number_of_cliques(domain, 2) > _MOST_SCORED

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return pairs_up_to(domain, _MOST_PAIR_CELLS) if self.adaptive else ()

    def statistic(self, domain: Domain) -> InDif | None:
        return dependences(self.needs(domain))

    def _any_forest(self, domain: Domain) -> tuple[Clique, ...]:
        """Return a forest of as many edges as the one that a release may choose."""
        if not self._by_forest(domain):
            return ()
        smallest, *others = joined_columns(domain, _MOST_PAIR_CELLS) or ("",)
        return tuple((smallest, other) for other in others)

    def scores_share(self, domain: Domain) -> Fraction:
        """With `forest`, the part for the scores of all pairs, if these are asked for."""
        return SCORES if self._by_forest(domain) else Fraction(1)

    def choices(self, domain: Domain) -> int:
        return len(self._any_forest(domain))

    def largest_choice(self, domain: Domain) -> Fraction | None:
        """Part of one choice: all measurements follow the last choice."""
        number = self.choices(domain)
        return CHOICES / number if number else None

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        terms = terms_of(inputs)
        certain = self.certain(domain, terms)
        if certain is not None and certain.share == 1:
            return certain.selection
        columns = one_way_tables(domain, tables_of(inputs.known))
        precision = sum(each / values.size for values, each in columns)
        # A number of rows below the standard deviation of its noise cannot be told from 0.
        rows = max(float(columns[0][0].sum()), precision**-0.5)
        estimated = _estimated_columns(inputs, rows)
        noise = np.array([1 / each for _, each in columns])
        costs, wanted = self._costs(terms, certain), CertainParts.of(certain, domain, terms)
        statistic, found = self.statistic(domain), None
        gains = Gains.expect(domain, estimated, noise, curator, inputs.measure_cost, inputs.zeros)
        if statistic is not None and self._by_forest(domain):
            found = look_at_wide(
                curator,
                domain,
                statistic,
                gains,
                Chance.of(domain, estimated, rows),
                inputs.select_cost,
                max_cells=_MOST_PAIR_CELLS,
                many_depend=lambda typical: self._many_depend(
                    domain, estimated, noise, costs, typical, wanted
                ),
            )
        elif statistic is not None:
            found = look_at_products(curator, domain, statistic.pairs, gains, inputs.select_cost)
        if found is None:
            found = look(curator, domain, statistic, inputs.select_cost, rows)
        parts, cliques, alone = measurable_parts(
            domain,
            estimated,
            noise,
            found.dependence,
            costs,
            found.typical,
            wanted,
            order=self.order,
        )
        shares = balance(parts)
        chosen = Selection(
            cliques=tuple(
                clique for clique, share in zip(cliques, shares, strict=True) if share > 0
            ),
            weights=normalise(
                [max(1, round(each * 10**7)) for each in shares.tolist() if each > 0]
            ),
            interactions=frozenset(
                clique
                for clique, share in zip(cliques, shares, strict=True)
                if share > 0 and clique in alone
            ),
        )
        chosen = dataclasses.replace(together(certain, chosen), dependences=found.asked)
        if certain is not None:
            return chosen
        left = 1 - SHARE
        pairs = [at for at, clique in enumerate(cliques) if len(clique) == 2]
        powers = (float(left) * shares) ** costs.exponent
        trends = chosen_trends(
            inputs.curator,
            domain,
            inputs.ordered,
            estimated,
            noise,
            {cliques[at]: float(parts.dependence[at]) for at in pairs},
            {cliques[at]: float(parts.noise[at] / powers[at]) for at in pairs if shares[at] > 0},
            inputs.measure_cost,
        )
        if not trends:
            return chosen
        weights = tuple(left * weight for weight in chosen.weights)
        return dataclasses.replace(chosen, weights=weights, trends=trends)

    def _many_depend(
        self,
        domain: Domain,
        columns: Sequence[NDArray[np.float64]],
        known: NDArray[np.float64],
        costs: Costs,
        typical: float,
        wanted: CertainParts | None,
    ) -> bool:
        """Return whether measuring pairs helps if all depend like usual ones do.

        Dependences differ like exponential variables, so that some pairs are worth more.
        """
        chance = Chance.of(domain, columns, max(float(columns[0].sum()), 1.0))
        spread = itertools.cycle(typical * _SPREAD)
        alike = {
            pair: math.hypot(chance.pair(pair), float(own))
            for pair, own in zip(self.needs(domain), spread, strict=False)
        }
        errors = []
        for pairs in ({}, alike):
            parts, _, _ = measurable_parts(
                domain, columns, known, pairs, costs, typical, wanted, order=self.order
            )
            errors.append(expected_error(parts, balance(parts, roughly=True)).two)
        return errors[1] < (1 - _DENSE) * errors[0]

    def forecast(
        self,
        domain: Domain,
        rows: int,
        currency: Currency,
        relation: Relation,
        *,
        one_way: Fraction,
        measure: Fraction,
        roughly: bool = False,
    ) -> tuple[Expected, Expected]:
        """Return the smallest and the largest expected error, from the schema alone.

        The forecast assumes that columns have few frequent codes and many rare ones, and that the
        dependence of pairs is between a third and twice that of a typical file.
        """
        columns = typical_columns(domain.sizes, rows)
        known: dict[Clique, float] = {}
        if not self.in_one_step:
            weights = allocate(domain.sizes, "epsilon" if currency.kind == "pure" else "rho")
            for name, weight in zip(domain.columns, weights, strict=True):
                first = Costs(currency, relation, one_way * weight, self.basis == "tables")
                known[(name,)] = first.table * (1 + first.floor)
        terms = Terms(currency=currency, relation=relation, measure=measure, known=known)
        certain = self.certain(domain, terms)
        wanted = CertainParts.of(certain, domain, terms)
        variances = np.array([*known.values()]) if known or wanted is None else wanted.columns
        looked_at = self._any_forest(domain) or self.needs(domain)
        if self.in_one_step:
            looked_at = pairs_up_to(domain, domain.size())
        found = []
        for times in DEPENDENCES:
            typical = times * usual(rows)
            pairs = dict.fromkeys(looked_at, typical)
            costs = self._costs(terms, certain)
            parts, _, _ = measurable_parts(
                domain, columns, variances, pairs, costs, typical, wanted, order=self.order
            )
            if self.at_once == "joint":
                # The sampling noise of the draw is removed from every table that this one tells.
                parts = dataclasses.replace(parts, drawn=0.0)
            alone = certain is not None and certain.share == 1
            shares = np.zeros(len(parts.cliques)) if alone else balance(parts, roughly=roughly)
            found.append(expected_error(parts, shares))
        return found[0], found[1]

    def _costs(self, terms: Terms, certain: Certain | None) -> Costs:
        """Return the noise of what is measured besides the workload."""
        left = terms.measure * (1 - certain.share if certain and certain.share < 1 else 1)
        whole = self.basis == "tables" or self.in_one_step
        return Costs(terms.currency, terms.relation, left, whole)


def _estimated_columns(inputs: MethodInputs, rows: float) -> list[NDArray[np.float64]]:
    """Return the centre of each one-way table's posterior distribution, in records.

    The noise of empty levels would make columns look spread out, and their pairs not worth
    measuring; the ends of numbers fall (`hidden_tails`).

    Args:
        inputs: What was measured before, and which columns are ordered.
        rows: Number of records that each table sums to.
    """
    pooled, found = pool(inputs.domain, inputs.known, rows=None), []
    for name, size in zip(inputs.domain.columns, inputs.domain.sizes, strict=True):
        codes = np.arange(size, dtype=np.float64)
        positions = inputs.ordered.get(name, 0)
        drawn = draw_column(
            inputs.domain.project((name,)),
            counts_of(pooled, name),
            total=rows,
            totals=np.full(2, rows),
            zeros=inputs.zeros,
            values=np.where(codes < positions, codes, np.nan) if positions else None,
            rng=np.random.default_rng(0),
        )
        found.append(drawn.middle)
    return found


METHOD = Auto
