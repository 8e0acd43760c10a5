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

*Few records.* What sets have of a table's noise: `dp_core.inference.set_noise`. The sum of a r over
the cells with few records is added as one more error.

*The prior.* If the noise of a coefficient has a standard error of t usual effects, a prior with a
standard deviation of one usual effect shrinks the coefficient by the fraction t^2 / (1 + t^2). That
fraction of a usual effect is added as an error; all of it if no table or sum contains the term with
the outcome. Levels have such an error in each cell, whatever their coding. The association of two
terms in the sets counts as an error up to the size that noise alone would produce; all of it if no
table contains them.

*Sums.* A noisy sum of a pair (a trend, or moments of a declared regression) adds its precision to
that of the table, but not to the error of cells with few records.

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
from dp_core.inference.set_noise import few_records, passed_part
from dp_core.kernel.questions.regressions.shortened import UNIT, SecondMoments
from dp_core.methods.declared.declared_regression import own_places
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.trends import NoisyTrend, trends_of
from dp_core.schema.grid import with_values

_CHANCE = 2.0
"""Standard deviations of the noise by which sets may differ from a noisy table."""
_MOST_EFFECT = 4.0
"""Largest usual effect on a logarithm: odds or counts that are 55 times as large."""
_LEAST_MOMENT = 0.02
"""Least second moment of a feature that was scaled to about 1."""
_MOST_CELLS = 1 << 20
"""Most cells of a table whose noise is computed."""


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


def _centred(design: Design, x: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return x less its means, and the matrix that turns coefficients on it into those on x."""
    size = len(design.names) * max(len(design.outcome.levels) - 1, 1)
    back = np.eye(size)
    if "Intercept" not in design.names:
        return x, back
    at, means = design.names.index("Intercept"), weights @ x / weights.sum()
    means[at] = 0.0
    for first in range(0, size, len(means)):
        back[first + at, first : first + len(means)] -= means
    return x - means, back


class TableNoise:
    """The noise in the coefficients of a regression on the sets of a release.

    Attributes:
        formula: Formula of the regression.
        design: Its design on the sets.
        schema: Schema of the release.
        columns: Columns of each coefficient's term, by its name.
        sets: Number of sets.
        x: Design of all sets, shape (rows, k); with an intercept, less its means, so that the
            intercept is the outcome at mean predictors.
        back: Matrix that turns such coefficients into those of the design, shape (p, p).
        bread: Inverse of the information of x, mean of the sets, shape (p, p).
        weighted: x times the survey weights, whose mean is 1.
        outcomes: Outcome of each linear predictor, shape (rows, levels - 1) or (rows, 1).
        coefficients: Mean coefficients of the sets, of x, shape (p,).
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
        self.sets = len(design.y)
        # Rows of a set, those with a missing value included, as tables count them.
        self._size = sum(frame.rows + frame.dropped for frame in frames) / self.sets
        x = np.concatenate(design.x)
        weights = np.concatenate(design.weights) if design.weights else np.ones(len(x))
        weights = weights / weights.mean()
        self.x, self.back = _centred(design, x, weights)
        self.weighted = self.x * weights[:, None]
        self.outcomes = _outcomes_of(design, np.concatenate(design.y))
        ahead = np.linalg.inv(self.back)
        self.coefficients = ahead @ np.mean([fit.coefficients for fit in fits], axis=0)
        self.bread = ahead @ np.mean([fit.bread for fit in fits], axis=0) @ ahead.T
        self.fitted = fitted_means(design, self.x, self.coefficients)
        self.effects = np.maximum(_usual_effects(design, [*self._groups().values()]), 1e-300)
        self.codes, self.values = measured_codes(formula.columns, frames, self.schema)
        self._known_cells: dict[tuple[str, ...], _Cells | None] = {}
        self.correlations = self._correlation_noise(bundle)

    @property
    def is_known(self) -> bool:
        """Whether all columns can be in tables, so that a missing table counts as an error.

        Otherwise (a column that depends on others, an outcome of two columns, too many cells) only
        the differences between the sets show the noise.
        """
        outcome = self.formula.outcome_columns
        cells = [self._cells((*columns, *outcome)) for columns in self._groups()]
        return len(outcome) == 1 and self._cells(outcome) is not None and None not in cells

    @property
    def is_complete(self) -> bool:
        """Whether a table or sum has every pair of terms, and every term with the outcome."""
        groups, outcome = list(self._groups()), self.formula.outcome_columns
        pairs = [(*one, *two) for one, two in combinations(groups, 2) if not {*one} & {*two}]
        pairs += [(*columns, *outcome) for columns in groups]
        return all(self._table(each) is not None or self._told(each) for each in pairs)

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
        relative, information = np.zeros(size), np.linalg.inv(self.bread)
        groups = self._groups()
        for columns, own in groups.items():
            places = self._places(own)
            square = np.ix_(places, places)
            noise += self._of_columns(columns, own)
            found = self._with_outcome(columns, own)
            if found is not None:
                noise[square] += found.noise
                full[square] += found.whole
                apart[places] += found.apart
                bread = self.bread[square]
                errors = np.sqrt(np.maximum(np.diag(bread @ found.whole @ bread), 0.0))
                relative[places] = errors / effects[places]
            told = relative[places] if found is not None else np.inf
            # Of each column given the others of the term, which may nearly determine it.
            alone = 1 / np.diag(np.linalg.inv(information[square]))
            by_prior = np.diag((_taken(told) * effects[places] * alone) ** 2)
            cells = None if {*columns} & {*self.values} else self._cells(columns)
            if cells is not None:
                # The prior takes a part of each cell's mean, whatever the coding of the levels.
                sums = np.inf if found is None else found.sums
                by_prior = self._taken_from(cells, own, sums)
            noise[square] += by_prior
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

    def _taken_from(self, cells: _Cells, own: Codes, sums: Floats | float) -> Floats:
        """Return the covariance of a term's scores by what the prior takes from its cells.

        Args:
            cells: The cells of levels.
            own: Columns of x.
            sums: Standard error of the outcome's sum in a cell, shape (levels - 1 or 1,).
        """
        effects = self.effects.reshape(-1, len(self.design.names)).min(axis=1)
        if self.design.outcome.family != "linear":
            # One of the logarithm changes the mean of an event, or a count, by so much.
            mean = self.outcomes.mean(axis=0)
            poisson = self.design.outcome.family == "poisson"
            effects = effects * (mean if poisson else mean * (1 - mean))
        most = np.outer(effects, cells.records)
        errors = np.reshape(sums, (-1, 1)) / np.maximum(most, 1e-300)
        away = self._away(cells, own)
        blocks = [(away * each**2) @ away.T for each in most * _taken(errors)]
        found = np.zeros((len(blocks) * len(own),) * 2)
        for place, block in enumerate(blocks):
            part = slice(place * len(own), (place + 1) * len(own))
            found[part, part] = block
        return found

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

    def _correlation_noise(self, bundle: Bundle) -> dict[frozenset[str], float]:
        """Return the standard error of the correlation of each pair that noisy sums tell.

        These are trends of pairs of numbers or two levels, and second moments of declared
        regressions. Posterior sets are drawn given both. If they differ from a trend by more than
        chance, that is the error.
        """
        found, records = dict[frozenset[str], float](), max(bundle.records, 1.0)
        for trend in trends_of(self.schema.domain, bundle.measured):
            columns = [self.schema.column(name) for name in trend.pair]
            if any(len(column.levels) not in (0, 2) for column in columns):
                continue
            error, cells = math.sqrt(trend.variance), self._cells(trend.pair)
            # The trend counts a missing value as 0, and complete rows have none.
            if cells is not None and all(column.missing_code is None for column in columns):
                own = float(trend.weights.ravel() @ cells.records) / cells.records.sum()
                apart = abs(trend.value / records - own) * records
                error = apart if apart > _CHANCE * error else error
            found[frozenset(trend.pair)] = error / (records * _spread(trend, self.pooled))
        for item in bundle.measured:
            if isinstance(item, Totals) and isinstance(item.of, SecondMoments):
                # Entries off the diagonal have half the variance.
                own = math.sqrt(item.variance / 2) / (UNIT**2 * records)
                one, other = np.triu_indices(item.of.predictors)
                moments = item.values[one == other] / (UNIT**2 * records)
                size = {
                    name: math.sqrt(max(float(moments[list(places)].min()), _LEAST_MOMENT))
                    for name, places in own_places(
                        item.of.features, with_values(self.schema, item.of.clique)
                    ).items()
                }
                found |= {
                    frozenset(pair): own / (size[pair[0]] * size[pair[1]])
                    for pair in combinations(size, 2)
                }
        return found

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
            apart[at :: len(self.design.names)] = values @ _rest(table[0], cells.records)
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
            none = np.zeros((count, count))
            return _ScoreNoise(none, none, np.zeros(count), np.zeros(self.outcomes.shape[1]))
        values, away, found = self._values(codes), self._away(cells, own), None
        few = np.zeros((count, count))
        table = self._table((*columns, *outcome))
        if table is not None:
            variance = table[1]
            records = both.records.reshape(len(cells.records), -1)
            noisy = values[:, None] * passed_part(records, math.sqrt(variance))
            off = (values @ few_records(records, math.sqrt(variance)).T @ away.T).ravel()
            few = np.outer(off, off)
            # A code with few records cannot have the noise that its cells have in the table.
            most = values * passed_part(codes.records, math.sqrt(variance))
            rest = _rest(table[0].reshape(records.shape), records)
            found = _ScoreNoise(
                variance * _summed(away, noisy, away, noisy) + few,
                np.asarray(variance * np.kron(most @ most.T, away @ away.T), dtype=np.float64),
                (most @ rest.T @ (away + self._means(cells, own)[:, None]).T).ravel(),
                np.sqrt(variance * (most**2).sum(axis=1)),
            )
        told = self._told((*columns, *outcome))
        if told is None:
            return found
        spread = np.outer(self.outcomes.std(axis=0), self.weighted[:, own].std(axis=0)).ravel()
        sums = np.asarray(np.diag(np.square(told * len(self.x) / self.sets * spread)))
        if found is None:
            total = np.sqrt(np.trace(sums)) * np.ones(self.outcomes.shape[1])
            return _ScoreNoise(sums, sums, np.zeros(count), total)
        kept, whole = (
            float(np.trace(sums)) / max(float(np.trace(sums) + np.trace(each)), 1e-300)
            for each in (found.noise - few, found.whole)
        )
        noise = (found.noise - few) * kept + few
        return _ScoreNoise(
            noise, found.whole * whole, found.apart * whole, found.sums * math.sqrt(whole)
        )

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
        part = passed_part(records, math.sqrt(variance))
        split = self.fitted.shape[1] * len(own)
        noisy, noise = left * part, right * part
        found[:split, :split] = _summed(x, noisy, x, noisy)
        flipped = noise.transpose(0, 2, 1)
        found[split:, split:] = _summed(z, flipped, z, flipped)
        found[:split, split:] = np.block([[x @ (a * b) @ z.T for b in noise] for a in noisy])
        found[split:, :split] = found[:split, split:].T
        expected = (shape[0] - 1) * (shape[1] - 1) * variance
        within = min(1.0, expected / max(float((relation**2).sum()), 1e-300))
        off = changes(relation * within + few_records(records, math.sqrt(variance)))
        found = variance * found
        if sums is not None:
            found *= (sums @ sums) / max(float(sums @ sums + np.trace(found)), 1e-300)
        return found + np.outer(off, off)

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
        sums: Standard error of the outcome's sum in a cell of the term, shape (levels - 1 or 1,).
    """

    noise: Floats
    whole: Floats
    apart: Floats
    sums: Floats


def _taken(errors: Floats | float) -> Floats:
    """Return the part of an effect that the prior takes, by the standard error in usual effects."""
    return np.asarray(1 - 1 / (1 + np.square(np.minimum(errors, 1e9))))


def _rest(counts: Floats, records: Floats) -> Floats:
    """Return by how much noisy counts are larger than records, in codes that have records.

    A table also counts rows with a missing value in a column of the formula, which the records are
    without. So counts are scaled to the records.
    """
    used = records > 0
    if counts.ndim == 2:
        used = np.outer(used.any(axis=1), used.any(axis=0))
    total = float(counts[used].sum())
    return np.asarray(counts * used * records.sum() / (total if total > 0 else 1.0) - records)


def _single_noise(changes: Floats, records: Floats, variance: float) -> Floats:
    """Return the covariance of scores by the noise of a table.

    Args:
        changes: Change of each score by a record in a cell, shape (scores, cells).
        records: Records of the cells.
        variance: Variance of a count.
    """
    noisy = changes * passed_part(records, math.sqrt(variance))
    off = changes @ few_records(records, math.sqrt(variance))
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


def _usual_effects(design: Design, groups: Sequence[Codes]) -> Floats:
    """Return the usual effect of each coefficient, in its unit, shape (p,).

    It is a standard deviation of the outcome, between two levels or for a standard deviation of a
    number; for other than linear regressions on the scale of the link, where that of an event of
    probability p is divided by p (1 - p), and at most `_MOST_EFFECT`. It is the standard deviation
    of the prior, and the error of what was not measured; half of it (`set_errors.UNTOLD`) is the
    most at which a coefficient is given. A column of -1, 0 and 1 counts as levels. Of a number and
    its square, each standard deviation is that given the other.

    Args:
        design: The design.
        groups: Places of the columns of x that are functions of the same columns of the file.
    """
    every = np.concatenate(design.x)
    means, spreads = every.mean(axis=0), every.std(axis=0)
    levels = np.isin(every, (-1.0, 0.0, 1.0)).all(axis=0) | (spreads <= 1e-12 * np.abs(means))
    units = np.where(levels, 1.0, 1 / np.maximum(spreads, 1e-300))
    for own in groups:
        if own.size > 1 and not levels[own].any():
            scaled = (every[:, own] - means[own]) / spreads[own]
            inverse = np.linalg.pinv(scaled.T @ scaled / len(scaled))
            units[own] *= np.sqrt(np.maximum(np.diag(inverse), 1.0))
    if "Intercept" in design.names:
        # The mean outcome where all numbers are 0.
        units[design.names.index("Intercept")] = math.hypot(1.0, *(means * units)[~levels])
    sizes = []
    for own in _outcomes_of(design, np.concatenate(design.y)).T:
        mean, deviation = float(own.mean()), max(float(own.std()), 1e-12)
        match design.outcome.family:
            case "linear":
                sizes.append(deviation)
            case "poisson":
                sizes.append(min(deviation / max(mean, 1e-12), _MOST_EFFECT))
            case "logistic" | "multinomial":
                sizes.append(min(1 / deviation, _MOST_EFFECT))
    return np.kron(np.array(sizes), units)


def _outcomes_of(design: Design, y: Floats) -> Floats:
    """Return the outcome of each linear predictor, shape (rows, levels - 1) or (rows, 1)."""
    levels = len(design.outcome.levels)
    return y[:, None] if not levels else (y[:, None] == np.arange(1, levels)).astype(float)


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
