"""The questions of a chain of regressions, and the functional mechanism. Public.

Zhang, Zhang, Xiao, Yang & Winslett (2012), Functional mechanism: regression analysis under
differential privacy (PVLDB 5(11)). The loss is a polynomial of degree 2 in the coefficients: a
squared error is one already, and a logistic loss is replaced by its Taylor polynomial. The
coefficients of the polynomial are sums over records, to which noise is added once. The minimiser is
then computed from the noisy polynomial, and the file is not read again.

In a chain of regressions this needs no further question. The linear terms of a polynomial are the
gradient at coefficients 0, which `gradient` asks for too. The quadratic terms are sums of products
of predictors, and the product of two columns is a linear term of the later column's own regression.
So the answers for all columns together contain the noisy polynomial of every regression, and their
sensitivity is that of `ClassGradient` and `NumberGradient`. `gradient` takes the quadratic terms
from model records instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Totals
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import (
    PROBABILITY,
    ClassGradient,
    NumberGradient,
)
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.parametric.synthesizer import Ask
from dp_core.schema.variables import Variable

_RIDGE = 4.0  # standard deviations of the noise, as in section 6.1 of the paper


class NoisyProducts:
    """Noisy sums of the products of all features of a chain, column by column.

    Features are an intercept and those of each column in turn, scaled by the public range.

    Attributes:
        rows: Number of records, known or measured.
        products: Sums of products, shape (features, features), symmetric.
        variances: Noise variances of the entries, of the same shape; 0 for what is known.
    """

    def __init__(self, order: Sequence[Variable], predictors: Features, rows: float) -> None:
        """Start without products.

        Args:
            order: Columns of the chain.
            predictors: Features of all columns, in the same order.
            rows: Number of records.
        """
        self.rows = rows
        self._start = np.cumsum([1, *[each.width for each in predictors.all]])
        self._numeric = [variable.numeric for variable in order]
        self.products = np.zeros((predictors.width, predictors.width))
        self.variances = np.zeros_like(self.products)
        self.products[0, 0] = rows

    def table(self, counts: NDArray[np.float64], variance: float) -> None:
        """Take the noisy counts of a categorical first column."""
        self._take(0, 1, counts[1:, None], variance)

    def learn(self, column: int, answer: Totals) -> None:
        """Take the noisy gradient at coefficients 0 of a column's regression."""
        asked, values = answer.of, answer.values.astype(np.float64)
        before = int(self._start[column])
        if isinstance(asked, NumberGradient):
            unit = float(ONE**2)
            self._take(column, before, -values[None, :-1] / unit, answer.variance / unit**2)
            # The question has twice the sum of squares, less the number of records with a value.
            square = (values[-1] / unit + self.present(column)) / 2
            self.products[before, before] = max(0.0, square)
            self.variances[before, before] = answer.variance / unit**2 / 4
            return
        assert isinstance(asked, ClassGradient)
        unit = float(PROBABILITY * ONE)
        slope = values.reshape(asked.classes - 1, before) / unit
        even, sums = _even(asked), self.products[0, :before]
        noise = answer.variance / unit**2 + even**2 * self.variances[0, :before]
        at = before + self._numeric[column]
        self._take(column, at, even * sums - slope, noise)

    def _take(
        self, column: int, at: int, sums: NDArray[np.float64], noise: float | NDArray[np.float64]
    ) -> None:
        """Store products of features from `at` on with the features of earlier columns."""
        before, until = int(self._start[column]), at + len(sums)
        variances = np.broadcast_to(noise, sums.shape)
        for into, values in ((self.products, sums), (self.variances, variances)):
            into[at:until, :before] = values
            into[:before, at:until] = values.T
            if at > before or not self._numeric[column]:
                # The square of an indicator is the indicator.
                into[range(at, until), range(at, until)] = values[:, 0]

    def present(self, column: int) -> float:
        """Return the estimated number of records that have a value in a column, at least 1."""
        return max(1.0, self.rows - float(self._missing(column)[0]))

    def _missing(self, column: int) -> NDArray[np.float64]:
        """Return sums of the features of earlier columns over records without a value."""
        before, last = int(self._start[column]), int(self._start[column + 1]) - 1
        if not self._numeric[column] or last == before:
            return np.zeros(before)
        return np.asarray(self.products[last, :before])

    def number(self, column: int, *, prior: float) -> tuple[NDArray[np.float64], float]:
        """Return the coefficients and the residual variance of a linear regression.

        If values are missing, the products of the predictors over the records that have a value are
        estimated by those over all records times the part of the records that have one.

        Args:
            column: Position of the column in the chain, after its answer is learnt.
            prior: Prior standard deviation of the coefficients, in half ranges.
        """
        at = int(self._start[column])
        rows, own = self.present(column), self.products[at, :at]
        means = (self.products[0, 1:at] - self._missing(column)[1:]) / rows
        mean = float(np.clip(own[0] / rows, -1, 1))
        noise = float(self.variances[at, 0])
        quadratic = self._centre(at) * rows / self.rows
        linear = own[1:] - mean * rows * means
        slopes, apparent = _minimum(
            quadratic, linear[None, :], np.ones((1, 1)), noise, self._noise(at), prior
        )
        coefficients = np.concatenate([[mean - slopes[0] @ means], slopes[0]])
        square = float(self.products[at, at]) - rows * mean**2
        residual = square - 2 * slopes[0] @ linear + slopes[0] @ quadratic @ slopes[0]
        return coefficients, float(residual + noise * apparent) / rows

    def classes(
        self, column: int, asked: ClassGradient, minimiser: Minimiser, *, prior: float
    ) -> NDArray[np.float64]:
        """Return the coefficients of a logistic regression, shape (classes - 1, features).

        Args:
            column: Position of the column in the chain, after its answer is learnt.
            asked: The question.
            minimiser: The point at which the Taylor polynomial approximates the loss is
                coefficients 0 with `functional-zero`, as in the paper, otherwise the intercepts
                that give the noisy proportions.
            prior: Prior standard deviation of the coefficients.
        """
        before = int(self._start[column])
        at = before + self._numeric[column]
        own = self.products[at : at + asked.classes - 1, :before]
        means = self.products[0, 1:before] / self.rows
        smooth = np.maximum(own[:, 0], 0) + 0.5
        first = max(self.rows - float(own[:, 0].sum()), 0) + 0.5
        shares = smooth / (smooth.sum() + first)
        even = np.full(asked.classes - 1, _even(asked))
        touching = even if minimiser == "functional-zero" else shares
        curvature = np.diag(touching) - np.outer(touching, touching)
        # About the intercepts of the proportions the gradient of the intercepts is 0.
        linear = own[:, 1:] - self.rows * shares[:, None] * means
        noise = float(self.variances[at, 0])
        slopes, _ = _minimum(
            self._centre(before), linear, curvature, noise, self._noise(before), prior
        )
        if minimiser == "functional-zero":
            intercepts = np.linalg.solve(curvature, shares - even)
        else:
            intercepts = np.log(shares) - np.log1p(-shares.sum())
        return np.column_stack([intercepts - slopes @ means, slopes])

    def _centre(self, until: int) -> NDArray[np.float64]:
        """Return the sums of products about the means of the features before `until`."""
        sums = self.products[0, 1:until]
        return np.asarray(self.products[1:until, 1:until] - np.outer(sums, sums) / self.rows)

    def _noise(self, until: int) -> float:
        """Return the standard deviation of the noise of a product, as a root mean square."""
        variances = self.variances[1:until, 1:until]
        noisy = variances[variances > 0]
        return float(np.sqrt(noisy.mean())) if noisy.size else 0.0


def _even(asked: ClassGradient) -> float:
    """Return the probability of a class at coefficients 0, as the question rounds it."""
    return (PROBABILITY // asked.classes) / PROBABILITY


def _minimum(
    quadratic: NDArray[np.float64],
    linear: NDArray[np.float64],
    curvature: NDArray[np.float64],
    noise: float,
    ridge_noise: float,
    prior: float,
) -> tuple[NDArray[np.float64], float]:
    """Return the minimiser of a noisy polynomial, regularised and trimmed.

    The polynomial is tr(C B Q B')/2 - tr(L B'), with B the coefficients. Section 6 of the paper:
    4 standard deviations of the noise are added to the diagonal of Q. Directions whose eigenvalues
    are still not positive are left out, so their coefficients are 0. Then the minimiser is shrunk
    as in `fitted_regressions`, by the noise of L and the prior.

    Args:
        quadratic: Q, shape (features, features), symmetric.
        linear: L, shape (classes, features).
        curvature: C, shape (classes, classes), positive definite.
        noise: Noise variance of an entry of L.
        ridge_noise: Standard deviation of the noise of an entry of Q.
        prior: Prior standard deviation of the coefficients.

    Returns:
        B, of the shape of L, and a factor: the noise in L makes the minimum of a linear
        regression's squared error too small by this factor times the noise variance.
    """
    values, vectors = np.linalg.eigh(quadratic)
    values = values + _RIDGE * ridge_noise
    # A direction without any variation has an eigenvalue of 0, apart from rounding.
    kept = values > 1e-9 * max(1.0, float(np.abs(values).max(initial=0.0)))
    values, vectors = values[kept], vectors[:, kept]
    own, turns = np.linalg.eigh(curvature)
    height = np.maximum(own, 1e-12)[:, None] * values
    inverse = height / (height**2 + height / prior**2 + noise / prior**2)
    found = turns @ (inverse * (turns.T @ linear @ vectors)) @ vectors.T
    apparent = float(np.sum(2 * inverse - inverse**2 * height))
    return found, apparent


Minimiser = Literal["gradient", "functional", "functional-zero", "output"]
Part = Literal["rows", "table", "missing", "number", "levels"]

REACH = 3.0
"""Numeric predictors are cut off at this many noisy standard deviations from their noisy mean; this
concerns .3 % of a normal column. With `functional` they are scaled by their range and not cut."""
RIDGE = Fraction(1, 20)
"""With `output`, weight of the penalty per record of the file. A larger one biases coefficients
more than its smaller noise is worth, and a smaller one has more noise (simulation 4)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the chain: a regression, the table of the first column, or the number of records.

    Attributes:
        column: Position of the column in the order, from 0.
        part: Which part of the column's model it is.
        share: Its part of the budget.
    """

    column: int
    part: Part
    share: Fraction


def pieces(order: Sequence[Variable], *, count: bool) -> tuple[Piece, ...]:
    """Return the pieces of a chain in the order in which they are asked. Public.

    Args:
        order: Columns in the order in which they are drawn.
        count: Whether the number of records is asked for if no table gives it.
    """
    found: list[tuple[int, Part, float]] = []
    width = 1
    for column, variable in enumerate(order):
        if column == 0 and (count or not variable.numeric):
            # The table of a categorical first column gives the number of records too.
            cells = 1 if variable.numeric else variable.size
            found.append((column, "rows" if variable.numeric else "table", float(cells)))
        if variable.numeric:
            if variable.missing:
                found.append((column, "missing", float(width * (column + 1))))
            found.append((column, "number", float((width + 1) * (column + 2))))
        elif column and variable.size > 1:
            entries = (variable.size - 1) * width
            found.append((column, "levels", float(entries * (column + 1))))
        width += predictor(variable, None).width
    # For e entries and squared sensitivity s, (e s)^(1/3) nearly minimises the sum of variances.
    sizes = [Fraction(max(1, round(16 * weight ** (1 / 3)))) for *_, weight in found]
    whole = sum(sizes)
    return tuple(
        Piece(column, part, size / whole)
        for (column, part, _), size in zip(found, sizes, strict=True)
    )


def planned_questions(order: Sequence[Variable], minimiser: Minimiser) -> tuple[Ask, ...]:
    """Return the planned questions; only scales are not known beforehand."""
    features = of_ranges(order)
    asks = []
    for piece in pieces(order, count=True):
        variable = order[piece.column]
        what: Sum | Clique = () if piece.part == "rows" else (variable.name,)
        if piece.part not in ("rows", "table"):
            own = Features(features[: piece.column])
            what = question(piece, variable, own, minimiser, rows=1)
        asks.append(Ask(step_name(piece), what, piece.share))
    return tuple(asks)


def question(
    piece: Piece, variable: Variable, features: Features, minimiser: Minimiser, rows: float
) -> Sum:
    """Return the question of a regression: its gradient at coefficients 0, or its minimiser."""
    if piece.part == "number":
        widest = max(1, variable.positions - 1)
        target = Number.line(variable.name, variable.positions, centre=0, reach=widest)
        return NumberGradient(target=target, features=features, at=(0,) * features.width)
    classes = 2 if piece.part == "missing" else variable.size
    missing = variable.positions if piece.part == "missing" else 0
    if minimiser == "output" and piece.part == "levels":
        return ClassMinimiser(
            column=variable.name,
            classes=classes,
            missing_from=missing,
            features=features,
            ridge=max(1, round(float(RIDGE) * rows)),
        )
    return ClassGradient(
        column=variable.name,
        classes=classes,
        missing_from=missing,
        features=features,
        at=(0,) * ((classes - 1) * features.width),
    )


def part_of(asked: Sum) -> Part:
    """Return the part of a column's model that a question belongs to."""
    if isinstance(asked, NumberGradient):
        return "number"
    return "missing" if isinstance(asked, ClassGradient) and asked.missing_from else "levels"


def step_name(piece: Piece) -> str:
    """Return the name of a question, unique within the method."""
    return f"column-{piece.column + 1}-{piece.part}"


def predictor(variable: Variable, codes: Codes | None) -> Number | Levels:
    """Return a column's features, scaled by the model records' codes if given, else its range."""
    if not variable.numeric:
        return Levels(name=variable.name, size=variable.size)
    widest = max(1, variable.positions - 1)
    centre, scale = 0, widest
    there = None if codes is None else codes[codes < variable.positions].astype(np.float64)
    if there is not None and there.size:
        centre = round(2 * float(there.mean()) - (variable.positions - 1))
        scale = min(widest, max(1, round(2 * REACH * float(there.std()))))
    return Number.line(
        variable.name,
        variable.positions,
        centre=centre,
        reach=scale,
        missing=variable.missing,
    )


def of_ranges(order: Sequence[Variable]) -> tuple[Number | Levels, ...]:
    """Return the features of columns, scaled by their ranges."""
    return tuple(predictor(variable, None) for variable in order)
