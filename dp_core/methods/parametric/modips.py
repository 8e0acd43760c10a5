"""MODIPS: draws from the posterior of a model given noisy counts, sums and products."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released, Totals
from dp_core.errors import BadInput
from dp_core.kernel.privacy import Neighbours
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.general_location import (
    EMPTY,
    GeneralLocation,
    Layout,
    covariance_of,
    freedom_of,
)
from dp_core.methods.parametric.synthesizer import Ask, Synthesizer, release
from dp_core.methods.parametric.two_cells import counts_of, difference
from dp_core.methods.reconstruction.estimates.consistency import norm_sub
from dp_core.schema.variables import Variables

MOST_CELLS = 2**20
"""Largest number of cells of the categorical columns and patterns of missing numbers."""
MOST_NUMBERS = 30
"""Largest number of numeric columns; J columns have J (J + 1)/2 products to pay for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modips(Synthesizer):
    """Model-based synthesis (Liu 2016; Bowen & Liu 2020, sections 3.2.2 and 4).

    With categorical columns only, the model is a multinomial distribution of the cells; with
    numeric columns only, a multivariate normal one; with both, the general location model: in each
    cell of the categorical columns the numbers are normal, with the cell's own means and one
    covariance for all cells.

    The method releases the counts of the cells, the sums of each number by cell, and the squares
    and products of the numbers. Deviations are from the middle of public ranges or from the cells'
    noisy means, so that sensitivities depend on the ranges alone. (The paper's sensitivity of a
    cell's mean, (c1 - c0)/n_k, uses the private n_k and is not a bound.) All divisions are by noisy
    counts.

    The pattern of missing numbers of a record is part of its cell, but the means do not depend on
    it.

    Squares and products are about the middle of the ranges if there is one cell and no number of a
    product can be missing, otherwise about the noisy means of the cells. The middle has an eighth
    to half of the noise, but it requires subtracting the squares of the cells' noisy means, which
    are mostly noise in small cells.

    Attributes:
        alpha: Prior records of the Dirichlet prior in every possible cell.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise BadInput(f"alpha is a positive number of records, not {self.alpha:g}.")

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        layout = Layout.of(variables)
        if layout.entries > MOST_CELLS:
            raise BadInput(
                f"modips takes at most {MOST_CELLS:,} cells of the categorical columns (and of"
                f" which numbers are missing) and these have {layout.entries:,}; merge levels, or"
                " use a method that measures tables of few columns, such as privsyn."
            )
        if len(layout.numbers) > MOST_NUMBERS:
            raise BadInput(
                f"modips takes at most {MOST_NUMBERS} numeric columns and these are"
                f" {len(layout.numbers)}; give some of them bins, or"
                " use a method that measures tables of few columns, such as privsyn."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        layout = Layout.of(variables)
        asked: list[tuple[str, Any]] = [("counts", layout.counts)]
        for number, variable in enumerate(layout.numbers, 1):
            asked.append((f"sums-{number}", layout.sums(variable)))
        for number, variable in enumerate(layout.numbers, 1):
            for other, second in enumerate(layout.numbers[:number], 1):
                product = layout.products(second, variable)
                asked.append((f"products-{other}-{number}", product))
        # Equal parts, as in the paper.
        return tuple(Ask(step, what, Fraction(1, len(asked))) for step, what in asked)

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        curator = inputs.curator
        if one := difference(curator, variables):
            counts = Ask("counts", one, Fraction(1))
            return tuple(release(inputs, [counts], inputs.measure_cost))
        asks = self.asks(variables)
        if Layout.of(variables).counts == () and curator.neighbours == "replace-one":
            # The number of records is public, so its part of the budget goes to the others.
            asks = asks[1:]
        whole = sum((ask.share for ask in asks), Fraction(0))
        return tuple(release(inputs, asks, inputs.measure_cost / whole))

    def model_of(self, variables: Variables, inputs: FitInputs) -> GeneralLocation:
        zeros = inputs.zeros
        layout = Layout.of(variables)
        counts = _two_counts(layout, inputs)
        if counts is None:
            counts = _counts(layout, inputs)
        present = counts @ layout.present  # cells x numbers
        totals = {item.of: item for item in inputs.released if isinstance(item, Totals)}
        sums = [totals[layout.sums(variable)] for variable in layout.numbers]
        reach = np.array([variable.positions - 1.0 for variable in layout.numbers])
        means = np.empty((layout.cells, len(layout.numbers)))
        between = np.zeros(len(layout.numbers))
        for number, item in enumerate(sums):
            means[:, number] = _means(item, present[:, number], reach[number])
            # Subtract what the noise of the means adds to their squares.
            many = present[:, number] >= EMPTY
            square = means[many, number] ** 2 - item.variance / present[many, number] ** 2
            between[number] = max(float(present[many, number] @ square), 0.0)
        covariance = np.zeros((len(layout.numbers),) * 2)
        for number, variable in enumerate(layout.numbers):
            for other, second in enumerate(layout.numbers[: number + 1]):
                question = layout.products(second, variable)
                both = counts @ (layout.present[:, number] * layout.present[:, other])
                there = max(float(both.sum()), 1.0)
                product = float(totals[question].values[0])
                if question.about == "middle" and question.squares:
                    product = (product + there * reach[number] ** 2) / 2 - between[number]
                elif question.about == "middle":
                    product -= float(both @ (means[:, number] * means[:, other]))
                covariance[number, other] = covariance[other, number] = product / there
        records = float(present.sum(axis=0).min()) if layout.numbers else 1.0
        groups = int((counts.sum(axis=1) >= EMPTY).sum())
        return GeneralLocation(
            variables=variables,
            rows=inputs.rows or max(1, round(float(counts.sum()))),
            zeros=zeros,
            alpha=np.where(layout.impossible(zeros), 0.0, self.alpha),
            counts=counts,
            present=present,
            means=means,
            covariance=covariance_of(covariance, reach),
            records=max(records, 1.0),
            freedom=freedom_of(records, groups, len(layout.numbers)),
        )


def _two_counts(layout: Layout, inputs: FitInputs) -> NDArray[np.float64] | None:
    """Return the counts of two levels that were measured as one number, otherwise None."""
    two = counts_of(inputs.released, inputs.rows)
    if two is None or inputs.rows is None:
        return None
    possible = ~layout.impossible(inputs.zeros)
    return norm_sub(two.reshape(possible.shape), total=float(inputs.rows), possible=possible)


def _counts(layout: Layout, inputs: FitInputs) -> NDArray[np.float64]:
    """Return nonnegative counts that agree with the number of records if it is known."""
    told = [
        item
        for item in inputs.released
        if (isinstance(item, Totals) and item.of == layout.counts)
        or (isinstance(item, Measurement) and layout.by and item.clique == layout.by)
    ]
    if not told:
        # Without a table there is one cell, which has all records.
        return np.full((1, 1), float(inputs.number_of_rows() or 1))
    counts = told[-1].values.astype(np.float64)
    # A whole number, so that restoring the model with its own `rows` gives the same model.
    known = inputs.number_of_rows([(float(counts.sum()), told[-1].variance * counts.size)])
    possible = ~layout.impossible(inputs.zeros)
    return norm_sub(counts.reshape(possible.shape), total=float(known), possible=possible)


def _means(item: Totals, present: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
    """Return a number's mean in each cell, within its range; sparse cells get the overall mean."""
    sums = item.values.astype(np.float64)
    overall = sums.sum() / max(float(present.sum()), 1.0)
    means = np.divide(sums, present, out=np.full(sums.shape, overall), where=present >= EMPTY)
    return np.asarray(np.clip(means, -reach, reach))


METHOD = Modips
