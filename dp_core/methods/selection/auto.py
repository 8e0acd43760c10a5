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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.noise_scale import noise_for
from dp_core.client.released import ReleasedKind, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.privacy import Neighbours, Relation, Stage
from dp_core.kernel.questions.linear_questions import MOST_ENTRIES, Interaction
from dp_core.methods.dependence_forest import residual_dependence
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.replicates.posterior.column_draws import draw_column
from dp_core.methods.replicates.posterior.nested_draws import counts_of
from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.costs import DEPENDENCES, Costs, typical_columns
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.budget.residual_balance import (
    Parts,
    balance,
    beyond_larger_areas,
    expected_error,
    kind_weights,
    larger_areas,
    with_sums_of_areas,
)
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
from dp_core.tables.cliques import cliques_of, number_of_cliques

_TRIPLE_PART = 0.05  # a triple's own deviation, relative to the mean of its pairs
_LEAST_PART = 0.1  # smallest part of a pair's deviation that is not ascribed to sampling
_MOST_PAIR_CELLS = 2**20  # of a larger pair almost every cell is empty
_MOST_TRIPLE_CELLS = 2**12
_MOST_TRIPLES = 700
_MOST_LISTED = 60_000  # triples that are compared with each other
_MOST_SCORED = 2000  # pairs whose dependence is asked at once; in wider files noise would hide it
_DENSE = 0.05  # relative reduction of the error by measuring usual pairs for which all are scored
_SPREAD = -np.log(1 - (np.arange(20) + 0.5) / 20)  # quantiles of an exponential variable of mean 1
_MOST_JOINT_CELLS = 2**12
_MOST_JOINT_COLUMNS = 10  # of a larger table, the noise of its parts is not computed
_TOTAL_UNKNOWN = 0.1  # part of the records; with a larger error columns also tell the total


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
        parts, cliques, alone = self.parts(
            domain, estimated, noise, found.dependence, costs, found.typical, wanted
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
        """Return whether measuring pairs helps if all depend like usual ones; see `parts`.

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
            parts, _, _ = self.parts(domain, columns, known, pairs, costs, typical, wanted)
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
        if self.in_one_step:
            return self._forecast_at_once(domain, columns, rows, currency, relation, measure)
        pure = currency.kind == "pure"
        weights = allocate(domain.sizes, "epsilon" if pure else "rho")
        whole = self.basis == "tables"
        first = [Costs(currency, relation, one_way * weight, whole) for weight in weights]
        known = [costs.table * (1 + costs.floor) for costs in first]
        terms = Terms(
            currency=currency,
            relation=relation,
            measure=measure,
            known={(name,): each for name, each in zip(domain.columns, known, strict=True)},
        )
        certain = self.certain(domain, terms)
        wanted = CertainParts.of(certain, domain, terms)
        found = []
        for times in DEPENDENCES:
            typical = times * usual(rows)
            looked_at = self._any_forest(domain) or self.needs(domain)
            pairs = dict.fromkeys(looked_at, typical)
            costs = self._costs(terms, certain)
            parts, _, _ = self.parts(
                domain, columns, np.array(known), pairs, costs, typical, wanted
            )
            alone = certain is not None and certain.share == 1
            shares = np.zeros(len(parts.cliques)) if alone else balance(parts, roughly=roughly)
            found.append(expected_error(parts, shares))
        return found[0], found[1]

    def _forecast_at_once(
        self,
        domain: Domain,
        columns: Sequence[NDArray[np.float64]],
        rows: int,
        currency: Currency,
        relation: Relation,
        measure: Fraction,
    ) -> tuple[Expected, Expected]:
        """Return the result of `forecast` if all tables are known beforehand.

        Args:
            domain: All columns.
            columns: One-way tables of a typical file, in records.
            rows: Approximate number of records.
            currency: Currency of the release.
            relation: Its neighbouring relation.
            measure: Budget of one measurement.
        """
        planned = self.fixed_selection(domain)
        assert planned is not None
        bounds = {"l1": count_l1(relation), "l2_squared": count_l2_squared(relation)}
        measured = {
            clique: float(noise_for(currency, measure * weight, **bounds).stddev ** 2)
            for clique, weight in zip(planned.cliques, planned.weights, strict=True)
        }
        joint = domain.columns in measured

        def variance(clique: Clique) -> float:
            """Return the noise variance of a cell of a table of these columns, in records^2."""
            if not joint:
                return measured[clique]
            return measured[domain.columns] * domain.size() / domain.size(clique)

        known = np.array([variance((name,)) for name in domain.columns])
        costs = Costs(currency, relation, measure, whole=True)
        pairs = pairs_up_to(domain, domain.size())
        found = []
        for times in DEPENDENCES:
            typical = times * usual(rows)
            alike = dict.fromkeys(pairs, typical)
            parts, cliques, _ = self.parts(domain, columns, known, alike, costs, typical)
            told = np.zeros(len(cliques))
            for at, clique in enumerate(cliques):
                if joint and len(clique) > 1:
                    own = [1 - 1 / size for size in domain.project(clique).sizes if size > 1]
                    told[at] = 1 / (variance(clique) * math.prod(own))
            # The sampling noise of the draw is removed from every table that a measured one tells.
            drawn = 0.0 if joint else parts.drawn
            parts = dataclasses.replace(parts, told=told, drawn=drawn)
            found.append(expected_error(parts, np.zeros(len(cliques))))
        return found[0], found[1]

    def parts(
        self,
        domain: Domain,
        columns: Sequence[NDArray[np.float64]],
        known: NDArray[np.float64],
        dependence: Mapping[Clique, float],
        costs: Costs,
        typical: float | None = None,
        wanted: CertainParts | None = None,
    ) -> tuple[Parts, tuple[Clique, ...], frozenset[Clique]]:
        """Return what may be measured: parts, their cliques, and which cliques are interactions.

        Args:
            domain: All columns.
            columns: Estimated one-way tables, in records.
            known: Noise variance of a cell of each one-way table, in records squared.
            dependence: Dependence (L1 distance from independence) of each pair that may be
                measured, in records.
            costs: Noise of a table and of an interaction.
            typical: Dependence of the other pairs, in records; None for that of a typical file.
            wanted: What the workload's measurements tell; None without a workload.
        """
        rows = max(float(columns[0].sum()), 1.0)
        typical = usual(rows) if typical is None else typical
        chance = Chance.of(domain, columns, rows)
        # Sampling alone makes columns of the file look dependent; that part is subtracted.
        dependence = {
            pair: math.sqrt(max(value**2 - chance.pair(pair) ** 2, (_LEAST_PART * value) ** 2))
            for pair, value in dependence.items()
        }
        dependence = beyond_larger_areas(domain, dependence)
        beyond = residual_dependence(domain, dependence, rows)
        dependence = beyond.dependence
        served = {**beyond.reach, **kind_weights(domain, dependence)}
        others = number_of_cliques(domain, 2) - len(dependence)
        apart = max(typical - beyond.unseen / max(others, 1), 0.0)
        unlisted_pairs = others * math.hypot(apart, chance.mean_pair)
        triples, unlisted = self._triples(domain, dependence, chance, typical)
        cliques = (*((name,) for name in domain.columns), *dependence, *triples)
        # Interactions say nothing about the number of records.
        total = float((1 / (known * domain.sizes)).sum()) ** -0.5
        least = 2 if total > _TOTAL_UNKNOWN * rows else 1
        sizes = [domain.project(clique).sizes for clique in cliques]
        kinds = wanted.kinds if wanted else {}
        measured_apart = [
            clique
            for clique, its in zip(cliques, sizes, strict=True)
            if kinds.get(clique, len(its) >= least and costs.apart(its))
        ]
        # What the workload measures alone has its place already.
        alone = _alone(domain, sorted(measured_apart, key=lambda clique: clique not in kinds))
        margin = np.full((len(cliques), 2), np.inf)
        for at, clique in enumerate(cliques):
            if len(clique) == 2 and clique not in alone:
                margin[at] = costs.table * sizes[at][1], costs.table * sizes[at][0]
        noise = np.array(
            [
                costs.own(its, alone=clique in alone)
                for clique, its in zip(cliques, sizes, strict=True)
            ]
        )
        parts = Parts(
            columns=columns,
            known=with_sums_of_areas(domain, wanted.columns if wanted else known),
            cliques=[domain.axes(clique) for clique in cliques],
            dependence=np.array([0.0] * len(domain) + [*dependence.values()] + [*triples.values()]),
            noise=noise,
            margin=margin,
            exponent=costs.exponent,
            floor=costs.floor,
            unlisted=(unlisted_pairs, unlisted),
            drawn=chance.mean_triple,
            told=wanted.precisions(cliques, domain) if wanted else None,
            reach=np.array([served.get(clique, 1.0) for clique in cliques]),
            also=larger_areas(domain, cliques, noise, margin),
        )
        return parts, cliques, alone

    def _costs(self, terms: Terms, certain: Certain | None) -> Costs:
        """Return the noise of what is measured besides the workload."""
        left = terms.measure * (1 - certain.share if certain and certain.share < 1 else 1)
        return Costs(terms.currency, terms.relation, left, whole=self.basis == "tables")

    def _triples(
        self, domain: Domain, dependence: Mapping[Clique, float], chance: Chance, typical: float
    ) -> tuple[dict[Clique, float], float]:
        """Return the deviation of each triple to consider, and the sum over the other triples."""
        number = number_of_cliques(domain, 3)
        apart = self.basis == "tables" or domain.nested is not None
        if self.order < 3 or apart or number > _MOST_LISTED:
            others = number_of_cliques(domain, 2) - len(dependence)
            mean = (sum(dependence.values()) + others * typical) / max(len(dependence) + others, 1)
            return {}, number * math.hypot(_TRIPLE_PART * mean, chance.mean_triple)
        found: dict[Clique, float] = {}
        seen: dict[Clique, float] = {}
        for clique in cliques_of(domain, 3):
            pairs = [dependence.get(pair, typical) for pair in itertools.combinations(clique, 2)]
            deviation = _TRIPLE_PART * sum(pairs) / 3
            seen[clique] = math.hypot(deviation, chance.triple(clique))
            if domain.size(clique) <= _MOST_TRIPLE_CELLS:
                found[clique] = deviation
        best = sorted(found, key=lambda clique: domain.size(clique) / seen[clique])
        kept = {clique: found[clique] for clique in best[:_MOST_TRIPLES]}
        return kept, sum(seen.values()) - sum(seen[clique] for clique in kept)


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


def _alone(domain: Domain, cliques: Sequence[Clique]) -> frozenset[Clique]:
    """Return the cliques that may all be measured as interactions together, in order."""
    left = MOST_ENTRIES
    found = []
    for clique in cliques:
        left -= Interaction(clique, domain.project(clique).sizes).length
        if left < 0:
            break
        found.append(clique)
    return frozenset(found)


METHOD = Auto
