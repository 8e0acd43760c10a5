"""Chained models of columns, each a private regression on the columns before it.

The confidential half and the public half run the same chain of steps: ask for a noisy gradient, fit
the regression, draw model records of the column, and use these as predictors of the next column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from dp_core.client.released import Released, Totals, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes, code_type
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.regressions.features import ONE, Features, Predictor
from dp_core.kernel.questions.regressions.gradients import ClassGradient, NumberGradient
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.regressions.fitted_regressions import (
    ClassFit,
    NumberFit,
    chances,
    class_precision,
    fit_classes,
    fit_number,
    number_fit,
)
from dp_core.methods.parametric.regressions.functional_mechanism import (
    Minimiser,
    NoisyProducts,
    Part,
    Piece,
    of_ranges,
    part_of,
    pieces,
    planned_questions,
    predictor,
    question,
    step_name,
)
from dp_core.methods.parametric.synthesizer import Ask, ParametricModel, Synthesizer, release
from dp_core.schema.variables import Variable, Variables

MOST_FEATURES = 500
"""Largest number of predictors of the last regression."""

MOST_ENTRIES = 20_000
"""Largest number of noisy values in one release of all regressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRegressions(Synthesizer):
    """Regress each column on those before it, and draw records in the same order.

    Attributes:
        order: Columns in the order in which they are drawn; the schema's order by default. Each
            column is regressed on those before it, so put columns that others depend on first.
        minimiser: How the regressions are fitted. `gradient`: to a noisy gradient, with model
            records as predictors. `functional`: the functional mechanism, which minimises a noisy
            polynomial of degree 2 in the coefficients (`functional_mechanism`); it asks what
            `gradient` asks. Its polynomial touches a logistic loss at the intercepts that give the
            noisy proportions of the column; with `functional-zero` at coefficients 0, as published,
            which moves proportions towards equal ones. `output`, for categorical columns: output
            perturbation of the minimiser of a penalised loss, which the penalty biases. `output` is
            for small files: rounding errors are certain to stay within the proof up to about
            20 million records with 10 features, 5 million with 50 and 150,000 with 500. For larger
            files the computation may continue in decimals of 60 digits, which can take days, and
            whether it does can depend on the file.
    """

    order: tuple[str, ...] = ()
    minimiser: Minimiser = "gradient"

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return ("class-minimiser",) if self.minimiser == "output" else ()

    def arrange(self, variables: Variables) -> tuple[Variable, ...]:
        """Return the columns in the order in which they are drawn."""
        if not self.order:
            return self.by_default(variables)
        if sorted(self.order) != sorted(variables.domain.columns):
            raise BadInput(
                "order names every column of the schema once, and nothing else; here it has"
                f" {len(self.order)} names for {len(variables)} columns."
            )
        return tuple(variables.variable(name) for name in self.order)

    def by_default(self, variables: Variables) -> tuple[Variable, ...]:
        """Return the columns in the order that is used if the spec states none."""
        return variables.all

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        order = self.arrange(variables)
        asked = [ask.what for ask in planned_questions(order, self.minimiser)]
        entries = sum(each.length if isinstance(each, Sum) else 1 for each in asked)
        # Predictors of the last regression, with the intercept.
        width = 1 + sum(predictor(variable, None).width for variable in order[:-1])
        if width > MOST_FEATURES:
            raise BadInput(
                f"The regressions would have {width:,} predictors, more than {MOST_FEATURES}: put"
                " columns of many levels last in `order`, or use fewer columns, or privsyn."
            )
        if entries > MOST_ENTRIES:
            raise BadInput(
                f"The regressions would have {entries:,} coefficients, more than {MOST_ENTRIES:,}:"
                " use fewer columns, columns of fewer levels, or privsyn."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        return planned_questions(self.arrange(variables), self.minimiser)

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        order, known = self.arrange(variables), inputs.curator.public_rows()
        released: list[Released] = []
        chain: Chain | None = None
        for piece in pieces(order, count=known is None):
            if piece.part in ("rows", "table"):
                clique = () if piece.part == "rows" else (order[0].name,)
                asked = Ask(step_name(piece), clique, piece.share)
                released += release(inputs, [asked], inputs.measure_cost)
                continue
            if chain is None:
                told = FitInputs(variables.domain, released, known, inputs.zeros)
                chain = self._empty_chain(order, told)
            chain = _up_to(chain, piece)
            asked = Ask(step_name(piece), chain.question(piece), piece.share)
            (answer,) = release(inputs, [asked], inputs.measure_cost)
            assert isinstance(answer, Totals)
            chain.learn(piece, answer)
            released.append(answer)
        return tuple(released)

    def model_of(self, variables: Variables, inputs: FitInputs) -> ParametricModel:
        order = self.arrange(variables)
        answers = {
            (item.of.clique[-1], part_of(item.of)): item
            for item in inputs.released
            if isinstance(item, Totals)
        }
        chain = self._empty_chain(order, inputs)
        for piece in pieces(order, count=False):
            if piece.part == "table":
                continue
            chain = _up_to(chain, piece)
            chain.learn(piece, answers[order[piece.column].name, piece.part])
        chain = _up_to(chain, None)
        return ChainModel(variables, max(1, round(chain.rows)), inputs.zeros, chain)

    def _empty_chain(self, order: Sequence[Variable], inputs: FitInputs) -> Chain:
        """Return a chain without fitted columns, with the known or measured number of records."""
        first = [each for each in tables_of(inputs.released) if each.clique == (order[0].name,)]
        estimates = [(float(each.values.sum()), each.variance * each.values.size) for each in first]
        chain = Chain(order, self.minimiser, inputs.number_of_rows(estimates))
        for table in first:
            if table.stage == "measure":
                chain.first_table(table.values.astype(np.float64), table.variance)
        return chain


MODEL_RECORDS = 1 << 12
"""Number of model records that represent the predictors, from a low-discrepancy sequence."""

CLASS_PRIOR = 5.0
"""Prior standard deviation of logistic coefficients, for indicators of levels and for numbers
divided by `REACH` standard deviations. The prior is weak: odds ratios above e^5 are rare."""
NUMBER_PRIOR = 1.0
"""Prior standard deviation of a linear regression's coefficients, in half ranges."""


class Chain:
    """The state of the chain: the fits so far, and model records of the columns done.

    Attributes:
        order: Columns in the order in which they are drawn.
        minimiser: How the regressions are fitted; see `ChainedRegressions`.
        rows: Number of records.
        fits: Fitted regressions, by position of the column in the order and part.
        proportions: Noisy counts of the first column, if it is categorical.
    """

    def __init__(self, order: Sequence[Variable], minimiser: Minimiser, rows: float) -> None:
        """Start a chain without fitted columns; arguments are the attributes."""
        self.order, self.minimiser, self.rows = tuple(order), minimiser, max(1.0, rows)
        self.fits: dict[tuple[int, Part], ClassFit | NumberFit] = {}
        self.proportions: NDArray[np.float64] | None = None
        self._codes = np.empty((MODEL_RECORDS, 0), dtype=code_type())
        self._there = np.ones(MODEL_RECORDS)
        self._predictors: tuple[Predictor, ...] = ()
        self._products: NoisyProducts | None = None
        if minimiser.startswith("functional"):
            ranges = Features(of_ranges(self.order))
            self._products = NoisyProducts(self.order, ranges, self.rows)
        axes = 2 * len(self.order)
        uniform = qmc.Sobol(axes, scramble=False).random(MODEL_RECORDS)
        # The sequence's first point is 0, at a corner, so all points are shifted by half a step.
        self._uniform = (uniform + 0.5 / MODEL_RECORDS).reshape(MODEL_RECORDS, -1, 2)

    @property
    def closed(self) -> int:
        """Number of columns whose model records are drawn."""
        return int(self._codes.shape[1])

    def question(self, piece: Piece) -> Sum:
        """Return a regression's question."""
        return question(
            piece, self.order[piece.column], Features(self._predictors), self.minimiser, self.rows
        )

    def learn(self, piece: Piece, answer: Totals) -> None:
        """Fit a regression to a noisy answer."""
        asked, values = answer.of, answer.values.astype(np.float64)
        noise, prior = answer.variance**0.5, CLASS_PRIOR
        mass = np.full(MODEL_RECORDS, self.rows / MODEL_RECORDS)
        fit: ClassFit | NumberFit
        if self._products is not None:
            assert isinstance(asked, ClassGradient | NumberGradient)
            fit = self._of_polynomial(piece.column, asked, answer, mass, self._products)
        elif isinstance(asked, NumberGradient):
            matrix, mass = asked.features.matrix(self._codes), mass * self._there
            fit = fit_number(matrix, mass, asked, values, noise, prior=NUMBER_PRIOR)
        elif isinstance(asked, ClassGradient):
            matrix = asked.features.matrix(self._codes)
            fit = fit_classes(matrix, mass, asked, values, noise, prior=prior)
        else:
            assert isinstance(asked, ClassMinimiser)
            features = asked.features.matrix(self._codes) / ONE
            found = values.reshape(asked.classes - 1, -1) * float(asked.unit)
            fit = ClassFit(found, class_precision(features, mass, found, prior=prior))
        # The scales of the question asked, because only these are known on another machine.
        self._predictors = asked.features.all
        self.fits[piece.column, piece.part] = fit

    def first_table(self, counts: NDArray[np.float64], variance: float) -> None:
        """Take the noisy counts of a categorical first column, with their noise variance."""
        self.proportions = counts
        if self._products is not None:
            self._products.table(counts, variance)

    def _of_polynomial(
        self,
        column: int,
        asked: ClassGradient | NumberGradient,
        answer: Totals,
        mass: NDArray[np.float64],
        products: NoisyProducts,
    ) -> ClassFit | NumberFit:
        """Return the regression that minimises the noisy polynomial of its loss."""
        products.learn(column, answer)
        features = asked.features.matrix(self._codes) / ONE
        if isinstance(asked, NumberGradient):
            mass = mass * self._there
            found, variance = products.number(column, prior=NUMBER_PRIOR)
            return number_fit(features, mass, asked, found, variance, prior=NUMBER_PRIOR)
        found = products.classes(column, asked, self.minimiser, prior=CLASS_PRIOR)
        return ClassFit(found, class_precision(features, mass, found, prior=CLASS_PRIOR))

    def close(self, column: int) -> None:
        """Draw a column of the model records, which makes it a predictor of later columns."""
        variable, uniform = self.order[column], self._uniform[:, column]
        matrix = Features(self._predictors).matrix(self._codes) / ONE
        codes = self._draw_column(column, matrix, uniform, None)
        self._codes = np.column_stack([self._codes, codes])
        # The noisy products are of features that are scaled by the range.
        scaled_by = None if self._products is not None else codes
        self._predictors += (predictor(variable, scaled_by),)
        self._there = np.ones(MODEL_RECORDS)

    def missing_done(self, column: int) -> None:
        """Weight the model records by the probability that the column is not missing."""
        fit = self.fits[column, "missing"]
        matrix = Features(self._predictors).matrix(self._codes) / ONE
        self._there = chances(matrix, fit.coefficients)[:, 0]

    def sample(self, rows: int, rng: np.random.Generator) -> list[Codes]:
        """Return codes of records drawn with new parameters, columns in the chain's order."""
        codes = np.empty((rows, 0), dtype=code_type())
        for column in range(len(self.order)):
            features = Features(self._predictors[:column])
            uniform = rng.random((rows, 2))
            drawn = self._draw_column(column, features.matrix(codes) / ONE, uniform, rng)
            codes = np.column_stack([codes, drawn])
        return list(codes.T)

    def _draw_column(
        self,
        column: int,
        matrix: NDArray[np.float64],
        uniform: NDArray[np.float64],
        rng: np.random.Generator | None,
    ) -> Codes:
        """Return codes of a column given its features; parameters are drawn if `rng` is given."""
        variable = self.order[column]
        if not variable.numeric:
            if column == 0:
                return _inverse(self._first(rng)[None, :], uniform[:, 0])
            fit = self.fits.get((column, "levels"))
            if fit is None:
                return np.zeros(len(matrix), dtype=code_type(variable.size))
            return _inverse(chances(matrix, _classes(fit, rng)), uniform[:, 0])
        fit = self.fits[column, "number"]
        assert isinstance(fit, NumberFit)
        coefficients, variance = (fit.coefficients, fit.variance) if rng is None else fit.drawn(rng)
        value = matrix @ coefficients + np.sqrt(variance) * ndtri(
            np.clip(uniform[:, 0], 1e-12, 1 - 1e-12)
        )
        reach = max(1, variable.positions - 1)
        position = np.rint((value * reach + variable.positions - 1) / 2)
        codes = np.asarray(
            np.clip(position, 0, variable.positions - 1), dtype=code_type(variable.size)
        )
        if variable.missing:
            missing = chances(matrix, _classes(self.fits[column, "missing"], rng))[:, 1]
            codes[uniform[:, 1] < missing] = variable.positions
        return codes

    def _first(self, rng: np.random.Generator | None) -> NDArray[np.float64]:
        """Return the proportions of the first column."""
        assert self.proportions is not None
        prior = np.maximum(self.proportions, 0) + 1 / len(self.proportions)
        return prior / prior.sum() if rng is None else rng.dirichlet(prior)


@dataclass(frozen=True, slots=True, eq=False)
class ChainModel(ParametricModel):
    """A chain of regressions; their parameters are drawn anew for every set.

    Attributes:
        chain: The fitted regressions.
    """

    chain: Chain = field(repr=False)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        drawn = self.chain.sample(rows, rng)
        names = [variable.name for variable in self.chain.order]
        place = [names.index(variable.name) for variable in self.variables]
        codes = np.ascontiguousarray(np.stack([drawn[each] for each in place]))
        return self.zeros.repair(Dataset(self.variables.domain, codes), rng=rng)


def _up_to(chain: Chain, piece: Piece | None) -> Chain:
    """Return the chain after closing every column before the piece's column."""
    until = len(chain.order) if piece is None else piece.column
    while chain.closed < until:
        chain.close(chain.closed)
    if piece is not None and piece.part == "number" and (piece.column, "missing") in chain.fits:
        chain.missing_done(piece.column)
    return chain


def _classes(fit: ClassFit | NumberFit, rng: np.random.Generator | None) -> NDArray[np.float64]:
    assert isinstance(fit, ClassFit)
    return fit.coefficients if rng is None else fit.drawn(rng)


def _inverse(chance: NDArray[np.float64], uniform: NDArray[np.float64]) -> Codes:
    """Return the class of each record by inversion of the distribution function."""
    passed = np.cumsum(chance, axis=1)[:, :-1] <= uniform[:, None]
    return np.asarray(passed.sum(axis=1), dtype=code_type(chance.shape[1]))
