"""The noise of a release's tables in the coefficients of a regression on its sets.

Let the scores of a regression be sum_i x_i (y_i - m_i), with the fitted mean m_i of a record, and J
its information. Every family has its canonical link; another one would need its weight in x. Scores
are sums over the cells of tables. If one more record in a cell changes the scores by a, noise of
variance s^2 in each count gives the scores the covariance N = s^2 sum_cells a a', and the
coefficients J^-1 N J^-1. With cells c of the columns of a term, cells d of those of another term,
codes b of the outcome, and x_c, m_c and m_cd the means over the records in these cells:

| table         | change a of the scores                                                     |
|---------------|----------------------------------------------------------------------------|
| outcome       | x v_b of all terms, with v_b the mean outcome of b less that of all        |
| term          | x_c (y - m_c), and x (y - m_c) of other terms, with the mean outcome y     |
| term, outcome | (x_c - z) v_b                                                              |
| two terms     | (x_c - z) (m_cd - m_c), and (x_d - z) (m_cd - m_d) of the other term       |

Here x is the mean over the records, and z that over the cells with records.

*Few records.* Counts in a set are never negative, so the error of a cell with r records is at most
about r. Its standard deviation is taken as s min(1, r/s). Where r < s, these errors have the same
sign, because sets have records in cells that are empty in the file. The sum of a r over these cells
is added as one more error.

*The prior.* If the noise of a coefficient has a standard error of t usual effects, a prior with a
standard deviation of one usual effect shrinks the coefficient by the fraction t^2 / (1 + t^2). That
fraction of a usual effect is added as an error; all of it if no table or sum contains the term with
the outcome. The association of two terms in the sets counts as an error up to the size that noise
alone would produce; all of it if no table contains them.

*Sums.* A noisy sum of a pair (a trend, or moments of a declared regression) adds its precision to
that of the table.

*Contradictions.* If the scores of the sets differ from those of the noisy tables by more than two
standard errors, the standard error of the coefficient is raised to the excess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.fitting import Fit, coefficient_columns, fitted_means
from dp_core.analysis.regression.frames import Codes, Frame, measured_codes
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Totals
from dp_core.inference.formulas.formula import Formula
from dp_core.kernel.questions.regressions.shortened import UNIT, SecondMoments
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.trends import NoisyTrend, trends_of

_CHANCE = 2.0
"""Standard deviations of the noise by which sets may differ from a noisy table."""
_MOST_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The cells of some columns.

    Attributes:
        own: Cell of each row of all sets, shape (rows,).
        records: Mean number of records of each cell in a set, shape (cells,).
        sets: Number of sets.
    """

    own: Codes
    records: Floats
    sets: int

    def means(self, values: Floats) -> Floats:
        """Return the mean of values, shape (rows,), in each cell; 0 in a cell without records."""
        sums = np.bincount(self.own, values, minlength=len(self.records))
        return np.asarray(sums / np.maximum(self.records * self.sets, 1.0))


class TableNoise:
    """The noise in the coefficients of a regression on the sets of a release.

    Attributes:
        formula: Formula of the regression.
        design: Its design on the sets.
        schema: Schema of the release.
        columns: Columns of each coefficient's term, by its name.
        sets: Number of sets.
        bread: Inverse of the information, mean of the sets, shape (p, p).
        x: Design of all sets, shape (rows, k).
        weighted: The same, times the survey weights, whose mean is 1.
        outcomes: Outcome of each linear predictor, shape (rows, levels - 1) or (rows, 1).
        coefficients: Mean coefficients of the sets, shape (p,).
        fitted: Fitted means, shape as `outcomes`.
        effects: Usual effect of each coefficient, shape (p,).
        codes: Codes of each column of the formula that was measured, shape (rows,).
        values: Values of those that are numbers, shape (rows,).
        pooled: The noisy tables.
        correlations: Standard error of the correlation of each pair that a noisy sum has.
    """

    def __init__(
        self,
        bundle: Bundle,
        formula: Formula,
        design: Design,
        frames: Sequence[Frame],
        fits: Sequence[Fit],
    ) -> None:
        self.formula, self.design = formula, design
        self.columns = coefficient_columns(formula, design)
        self.schema = bundle.claims.schema
        # Sets of mode `split` have a measurement each; their mean has the mean of the noise.
        self.pooled = pool(self.schema.domain, bundle.measured)
        self.correlations = _correlation_noise(bundle, self.pooled)
        self.bread = np.mean([fit.bread for fit in fits], axis=0)
        self.sets = len(design.y)
        # Rows of a set, those with a missing value included, as tables count them.
        self._size = sum(frame.rows + frame.dropped for frame in frames) / self.sets
        self.x = self.weighted = np.concatenate(design.x)
        if design.weights:
            weights = np.concatenate(design.weights)
            self.weighted = self.x * (weights / weights.mean())[:, None]
        self.outcomes = outcomes_of(design, np.concatenate(design.y))
        self.coefficients = np.mean([fit.coefficients for fit in fits], axis=0)
        self.fitted = fitted_means(design, self.x, self.coefficients)
        self.effects = np.maximum(usual_effects(design), 1e-300)
        self.codes, self.values = measured_codes(formula.columns, frames, self.schema)
        self._known_cells: dict[tuple[str, ...], _Cells | None] = {}

    @property
    def is_known(self) -> bool:
        """Whether all columns can be in tables, so that a missing table counts as an error.

        Otherwise (a column that depends on others, an outcome of two columns, too many cells) only
        the differences between the sets show the noise.
        """
        outcome = self.formula.outcome_columns
        cells = [self._cells((*columns, *outcome)) for columns in self._groups()]
        return len(outcome) == 1 and self._cells(outcome) is not None and None not in cells

    def covariance(self, variances: Floats) -> tuple[Floats, Floats]:
        """Return the covariance that noise gives the coefficients, and its errors in usual effects.

        Args:
            variances: Sampling variances of the coefficients, shape (p,).

        Returns:
            Shapes (p, p) and (p,). The second is at least what the term's own table would give with
            full noise in every cell.
        """
        size, effects = len(self.columns), self.effects
        noise, full, apart = self._of_outcome()
        relative, information = np.zeros(size), np.diag(np.linalg.inv(self.bread))
        groups = self._groups()
        for columns, own in groups.items():
            places = self._places(own)
            square = np.ix_(places, places)
            noise += self._of_columns(columns, own)
            found = self._with_outcome(columns, own)
            taken = np.ones(len(places))
            if found is not None:
                noise[square] += found.noise
                full[square] += found.whole
                apart[places] += found.apart
                bread = self.bread[square]
                errors = np.sqrt(np.maximum(np.diag(bread @ found.whole @ bread), 0.0))
                relative[places] = errors / effects[places]
                taken = relative[places] ** 2 / (1 + relative[places] ** 2)
            noise[square] += np.diag((taken * effects[places] * information[places]) ** 2)
        for one, two in combinations(groups, 2):
            places = np.concatenate([self._places(groups[one]), self._places(groups[two])])
            noise[np.ix_(places, places)] += self._between(one, groups[one], two, groups[two])
        whole = self.bread @ noise @ self.bread
        errors = np.sqrt(np.maximum(np.diag(whole), 0.0))
        chance = np.diag(self.bread @ full @ self.bread) + variances
        beyond = np.maximum((self.bread @ apart) ** 2 - _CHANCE**2 * chance, 0.0)
        wider = np.maximum(1.0, np.sqrt(beyond) / np.maximum(errors, 1e-300))
        wider[errors == 0] = 1.0
        return whole * np.outer(wider, wider), np.maximum(relative, errors / effects)

    def change_of_means(self, scores: Floats) -> Floats:
        """Return the change of the fitted means by one of the linear predictors.

        Both have the shape of `fitted`.
        """
        match self.design.outcome.family:
            case "linear":
                return scores
            case "poisson":
                return self.fitted * scores
            case "logistic" | "multinomial":
                mean = (self.fitted * scores).sum(axis=1, keepdims=True)
                return np.asarray(self.fitted * (scores - mean))

    def _groups(self) -> dict[tuple[str, ...], Codes]:
        """Return the columns of the design by the columns of the file that they come from."""
        found: dict[tuple[str, ...], list[int]] = {}
        for at, term in enumerate(self.design.terms):
            columns = tuple(sorted({*self.formula.terms[term]}))
            if columns:
                found.setdefault(columns, []).append(at)
        return {columns: np.array(own, dtype=np.intp) for columns, own in found.items()}

    def _places(self, own: Codes) -> Codes:
        """Return the places of the coefficients of columns of x, level by level of the outcome."""
        width = len(self.design.names)
        return np.asarray((np.arange(0, len(self.columns), width)[:, None] + own).ravel())

    def _cells(self, columns: Sequence[str]) -> _Cells | None:
        """Return the cells of some columns; None if one was not measured, or they are too many."""
        key = tuple(columns)
        if key not in self._known_cells:
            self._known_cells[key] = self._new_cells(key)
        return self._known_cells[key]

    def _new_cells(self, columns: tuple[str, ...]) -> _Cells | None:
        if len({*columns}) < len(columns) or not {*columns} <= {*self.codes}:
            return None
        sizes = [self.schema.column(name).size for name in columns]
        count = math.prod(sizes)
        if count > _MOST_CELLS:
            return None
        cells = np.zeros(len(self.x), dtype=np.intp)
        for name, each in zip(columns, sizes, strict=True):
            cells = cells * each + self.codes[name]
        return _Cells(cells, np.bincount(cells, minlength=count) / self.sets, self.sets)

    def _table(self, columns: Sequence[str]) -> tuple[Floats, float] | None:
        """Return the noisy counts, scaled to the rows of a set, and their variance.

        None if no table has them, or they are exact.
        """
        counts, variance = self.pooled.counts(tuple(columns)), self.pooled.variance(tuple(columns))
        if counts is None or not variance:
            return None
        scale = self._size / max(float(np.sum(counts)), 1.0)
        return scale * np.asarray(counts, dtype=np.float64).ravel(), scale**2 * float(variance)

    def _of_outcome(self) -> tuple[Floats, Floats, Floats]:
        """Return the noise of all scores by the outcome's own table, in full, and the difference.

        Returns:
            Covariance in the sets, and with the noise of cells with few records in full, both of
            shape (p, p), and by how much the scores of the table are larger, shape (p,). Only the
            intercept's score differs: that of a term follows the table of the term.
        """
        size, names = len(self.columns), self.formula.outcome_columns
        cells = self._cells(names)
        table = None if cells is None or len(names) != 1 else self._table(names)
        apart = np.zeros(size)
        if cells is None or table is None:
            return np.zeros((size, size)), np.zeros((size, size)), apart
        values = self._values(cells)
        changes = np.kron(values, self.weighted.mean(axis=0)[:, None])
        if "Intercept" in self.design.names:
            at = self.design.names.index("Intercept")
            apart[at :: len(self.design.names)] = values @ (table[0] - cells.records)
        full = table[1] * changes @ changes.T
        return _single_noise(changes, cells.records, table[1]), full, apart

    def _of_columns(self, columns: Sequence[str], own: Codes) -> Floats:
        """Return the noise of all scores by the table of a term's columns, shape (p, p)."""
        size = len(self.columns)
        cells = self._cells(columns)
        table = None if cells is None else self._table(columns)
        if cells is None or table is None:
            return np.zeros((size, size))
        x = np.repeat(self.weighted.mean(axis=0)[:, None], len(cells.records), axis=1)
        for at in own:
            x[at] = cells.means(self.weighted[:, at])
        changes = [
            x * (mean - cells.means(fitted)) * (cells.records > 0)
            for mean, fitted in zip(self.outcomes.mean(axis=0), self.fitted.T, strict=True)
        ]
        return _single_noise(np.concatenate(changes), cells.records, table[1])

    def _with_outcome(self, columns: Sequence[str], own: Codes) -> _ScoreNoise | None:
        """Return the noise of a term's scores by its table with the outcome.

        None if neither a table nor a sum has them; nothing if no table can (`is_known`).
        """
        outcome = self.formula.outcome_columns
        count = self.outcomes.shape[1] * len(own)
        cells, codes = self._cells(columns), self._cells(outcome)
        both = self._cells((*columns, *outcome))
        if cells is None or codes is None or both is None or len(outcome) != 1:
            return _ScoreNoise(np.zeros((count, count)), np.zeros((count, count)), np.zeros(count))
        values, away, found = self._values(codes), self._away(cells, own), None
        table = self._table((*columns, *outcome))
        if table is not None:
            variance = table[1]
            records = both.records.reshape(len(cells.records), -1)
            noisy = values[:, None] * _part(records, variance)
            off = (values @ _few(records, variance).T @ away.T).ravel()
            # A code with few records cannot have the noise that its cells have in the table.
            most = values * _part(codes.records, variance)
            rest = (table[0] - both.records).reshape(records.shape)
            found = _ScoreNoise(
                variance * _summed(away, noisy, away, noisy) + np.outer(off, off),
                np.asarray(variance * np.kron(most @ most.T, away @ away.T), dtype=np.float64),
                (most @ rest.T @ (away + self._means(cells, own)[:, None]).T).ravel(),
            )
        told = self._told((*columns, *outcome))
        if told is None:
            return found
        spread = np.outer(self.outcomes.std(axis=0), self.weighted[:, own].std(axis=0)).ravel()
        sums = np.asarray(np.diag(np.square(told * len(self.x) / self.sets * spread)))
        if found is None:
            return _ScoreNoise(sums, sums, np.zeros(count))
        kept, whole = (
            float(np.trace(sums)) / max(float(np.trace(sums) + np.trace(each)), 1e-300)
            for each in (found.noise, found.whole)
        )
        return _ScoreNoise(found.noise * kept, found.whole * whole, found.apart * whole)

    def _between(self, one: Sequence[str], own: Codes, two: Sequence[str], others: Codes) -> Floats:
        """Return the noise of the scores of two terms by the table of their columns."""
        count = self.fitted.shape[1] * (len(own) + len(others))
        found = np.zeros((count, count))
        both, first, second = self._cells((*one, *two)), self._cells(one), self._cells(two)
        if both is None or first is None or second is None:
            return found
        shape = len(first.records), len(second.records)
        records = both.records.reshape(shape)
        means = np.array([both.means(each).reshape(shape) for each in self.fitted.T])
        left = means - np.array([first.means(each) for each in self.fitted.T])[:, :, None]
        right = means - np.array([second.means(each) for each in self.fitted.T])[:, None]
        left, right = left * (records > 0), right * (records > 0)
        x, z = self._away(first, own), self._away(second, others)

        def changes(cells: Floats) -> Floats:
            """Return the changes of the scores by records in each cell, shape (count,)."""
            sides = (left * cells).sum(axis=2) @ x.T, (right * cells).sum(axis=1) @ z.T
            return np.concatenate([each.ravel() for each in sides])

        table, told = self._table((*one, *two)), self._told((*one, *two))
        sums = None
        if told is not None:
            sums = changes(told * self._unit_of_correlation(one[0], first, two[0], second))
        relation = records - np.outer(first.records, second.records) / records.sum()
        if table is None:
            # The relation follows from those with other columns, and there may be none.
            off = changes(relation) if sums is None else sums
            return np.outer(off, off)
        variance = table[1]
        part = _part(records, variance)
        split = self.fitted.shape[1] * len(own)
        noisy, noise = left * part, right * part
        found[:split, :split] = _summed(x, noisy, x, noisy)
        flipped = noise.transpose(0, 2, 1)
        found[split:, split:] = _summed(z, flipped, z, flipped)
        found[:split, split:] = np.block([[x @ (a * b) @ z.T for b in noise] for a in noisy])
        found[split:, :split] = found[:split, split:].T
        expected = (shape[0] - 1) * (shape[1] - 1) * variance
        within = min(1.0, expected / max(float((relation**2).sum()), 1e-300))
        off = changes(relation * within + _few(records, variance))
        found = variance * found + np.outer(off, off)
        if sums is not None:
            found *= (sums @ sums) / max(float(sums @ sums + np.trace(found)), 1e-300)
        return found

    def _told(self, columns: Sequence[str]) -> float | None:
        """Return the standard error of the correlation of two columns; None if no sum tells it."""
        return self.correlations.get(frozenset(columns)) if len(columns) == 2 else None

    def _unit_of_correlation(self, one: str, first: _Cells, two: str, second: _Cells) -> Floats:
        """Return records, by cell of two columns, that add 1 to their correlation."""
        sides = []
        for name, cells in ((one, first), (two, second)):
            own = np.asarray(self.values.get(name, self.codes[name]), dtype=np.float64)
            scaled = (cells.means(own) - own.mean()) / max(float(own.std()), 1e-300)
            sides.append(scaled * cells.records)
        return np.asarray(np.outer(*sides) / float(first.records.sum()))

    def _means(self, cells: _Cells, own: Codes) -> Floats:
        """Return the mean of predictors over the cells that have records, shape (k,)."""
        some = cells.records > 0
        means = np.array([cells.means(self.weighted[:, at]) for at in own])
        return np.asarray(means[:, some].mean(axis=1))

    def _away(self, cells: _Cells, own: Codes) -> Floats:
        """Return mean predictors of cells, less `_means`, shape (k, cells); 0 without records."""
        means = np.array([cells.means(self.weighted[:, at]) for at in own])
        return np.asarray((means - self._means(cells, own)[:, None]) * (cells.records > 0))

    def _values(self, cells: _Cells) -> Floats:
        """Return the mean outcome of each code less that of all, shape (levels - 1 or 1, codes)."""
        means = np.array([cells.means(each) for each in self.outcomes.T])
        return np.asarray((means - self.outcomes.mean(axis=0)[:, None]) * (cells.records > 0))


@dataclass(frozen=True, slots=True, eq=False)
class _ScoreNoise:
    """The noise of the scores of one term, level by level of the outcome.

    Attributes:
        noise: Covariance in the sets, shape (q, q).
        whole: Covariance with the noise of cells with few records in full, shape (q, q).
        apart: By how much the scores of the noisy table are larger than those of the sets.
    """

    noise: Floats
    whole: Floats
    apart: Floats


def _part(records: Floats, variance: float) -> Floats:
    """Return the fraction of a table's noise that counts of the sets can have."""
    return np.asarray(np.minimum(1.0, records / math.sqrt(variance)))


def _few(records: Floats, variance: float) -> Floats:
    """Return the records of the cells that have fewer than the standard error of the noise."""
    return np.asarray(records * variance / (variance + records**2))


def _single_noise(changes: Floats, records: Floats, variance: float) -> Floats:
    """Return the covariance of scores by the noise of a table.

    Args:
        changes: Change of each score by a record in a cell, shape (scores, cells).
        records: Records of the cells.
        variance: Variance of a count.
    """
    noisy = changes * _part(records, variance)
    off = changes @ _few(records, variance)
    return np.asarray(variance * noisy @ noisy.T + np.outer(off, off))


def _summed(x: Floats, changes: Floats, other: Floats, others: Floats) -> Floats:
    """Return sum_cd (x_c changes_cd) (other_c others_cd)', level by level.

    Args:
        x: Shape (k, rows of the table).
        changes: Shape (levels, rows, columns).
        other: Shape (q, rows).
        others: Shape (levels, rows, columns).
    """
    weights = np.einsum("lcd,mcd->lmc", changes, others)
    return np.block([[(x * each) @ other.T for each in row] for row in weights])


def usual_effects(design: Design) -> Floats:
    """Return the usual effect of each coefficient, in its unit, shape (p,).

    It is a standard deviation of the outcome, between two levels or for a standard deviation of a
    number; for other than linear regressions on the scale of the link, where that of an event of
    probability p is divided by p (1 - p). It is the standard deviation of the prior, and the error
    of what was not measured; half of it (`set_errors.UNTOLD`) is the most at which a coefficient is
    given. A column of -1, 0 and 1 counts as levels.
    """
    every = np.concatenate(design.x)
    levels = np.isin(every, (-1.0, 0.0, 1.0)).all(axis=0)
    units = np.where(levels, 1.0, 1 / np.maximum(every.std(axis=0), 1e-300))
    sizes = []
    for own in outcomes_of(design, np.concatenate(design.y)).T:
        mean, deviation = float(own.mean()), max(float(own.std()), 1e-12)
        match design.outcome.family:
            case "linear":
                sizes.append(deviation)
            case "poisson":
                sizes.append(deviation / max(mean, 1e-12))
            case "logistic" | "multinomial":
                sizes.append(1 / deviation)
    return np.kron(np.array(sizes), units)


def outcomes_of(design: Design, y: Floats) -> Floats:
    """Return the outcome of each linear predictor, shape (rows, levels - 1) or (rows, 1)."""
    levels = len(design.outcome.levels)
    return y[:, None] if not levels else (y[:, None] == np.arange(1, levels)).astype(float)


def _correlation_noise(bundle: Bundle, pooled: Pooled) -> dict[frozenset[str], float]:
    """Return the standard error of the correlation of each pair that noisy sums tell.

    These are trends of pairs of numbers or two levels, and second moments of declared regressions.
    Posterior sets are drawn given both.
    """
    schema, found = bundle.claims.schema, dict[frozenset[str], float]()
    records = max(bundle.records, 1.0)
    for trend in trends_of(schema.domain, bundle.measured):
        columns = [schema.column(name) for name in trend.pair]
        if all(not column.levels or len(column.levels) == 2 for column in columns):
            spread = _spread(trend, pooled)
            found[frozenset(trend.pair)] = math.sqrt(trend.variance) / (records * spread)
    for item in bundle.measured:
        if isinstance(item, Totals) and isinstance(item.of, SecondMoments):
            # Of features with unit second moments; an entry off the diagonal has half the variance.
            own = math.sqrt(item.variance / 2) / (UNIT**2 * records)
            names = [each.name for each in item.of.features.all]
            found |= {frozenset(pair): own for pair in combinations(names, 2)}
    return found


def _spread(trend: NoisyTrend, pooled: Pooled) -> float:
    """Return the product of the standard deviations of a trend's two scaled codes."""
    at = np.unravel_index(int(np.abs(trend.weights).argmax()), trend.weights.shape)
    found = 1 / max(abs(float(trend.weights[at])), 1e-300)
    for name, values in zip(
        trend.pair, (trend.weights[:, at[1]], trend.weights[at[0]]), strict=True
    ):
        counts = pooled.counts((name,))
        found *= 0.5 if counts is None else _deviation(np.maximum(counts, 0.0), values)
    return max(found, 1e-9)


def _deviation(counts: Floats, values: Floats) -> float:
    """Return the standard deviation of values with these counts; 0 without any."""
    total = float(counts.sum())
    if not total > 0:
        return 0.0
    mean = float(counts @ values) / total
    return math.sqrt(max(float(counts @ (values - mean) ** 2) / total, 0.0))
