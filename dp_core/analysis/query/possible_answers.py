"""Which answers a question can have, whatever the file holds.

Every answer is a sum of nonnegative counts, a ratio of two such sums, or a difference of two of
these. In the possible cells (`possible_cells`), the weights of the numerator divided by those of
the denominator bound a ratio: a share is from 0 to 1, and a mean is between the smallest and the
largest value that its conditions allow. If both bounds are equal, the answer says nothing about the
file.

Means, quantiles and ratios are cut to the possible answers. Counts, shares and totals are not,
because people add them up, and sums of cut estimates are biased; those that have one possible
answer only are this answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.term_intervals import Ends, Term
from dp_core.errors import BadInput
from dp_core.inference.questions.question import Question
from dp_core.inference.spread_measures import SPREAD_MEASURES
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals


@dataclass(frozen=True, slots=True, eq=False)
class PossibleAnswers:
    """The smallest and the largest possible answer of each group.

    Attributes:
        least, most: Arrays with one entry for each group; NaN for a group that no record can be in.
        adds_up: Whether the answers are counts, shares or totals, which are not cut.
    """

    least: Floats
    most: Floats
    adds_up: bool

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Whether the schema allows a record in each group."""
        return ~np.isnan(self.least)

    def at(self, places: Sequence[int]) -> PossibleAnswers:
        """Return the possible answers of some groups."""
        index = np.array(places, dtype=np.intp)
        return PossibleAnswers(self.least[index], self.most[index], self.adds_up)

    def minus(self, other: PossibleAnswers) -> PossibleAnswers:
        """Return the possible differences from the answers of another file."""
        return PossibleAnswers(self.least - other.most, self.most - other.least, self.adds_up)

    def cut(self, found: Ends, values: Floats | None = None) -> Ends:
        """Return answers within the possible ones, with intervals that cover no less than before.

        An estimate outside the range moves to its nearest end, and the end of the interval beyond
        the estimate moves with it: the interval is that of the moved estimate, cut to the range
        (Mandelkern 2002, Statistical Science 17). So a mean of -50 ± 60 of values that cannot be
        negative becomes 0 with an interval from 0 to 60. Cut to the range alone, the interval would
        be 0 to 10, or even empty at -70 ± 60, as if the noise were small.

        Args:
            found: Answers; undetermined ones have infinite ends, and stay as they are.
            values: Estimates within the range; by default the nearest ones to the answers.
        """
        free = self.least != self.most if self.adds_up else np.isnan(self.least)
        least, most = np.where(free, -np.inf, self.least), np.where(free, np.inf, self.most)
        nearest = np.clip(found[0], least, most) if values is None else values
        moved, *ends = moved_to(nearest, found)
        known = _is_determined(found)
        low, high = (np.where(known, np.clip(each, least, most), each) for each in ends)
        return moved, low, high

    def outside(self, found: Ends) -> bool:
        """Return whether the estimate of a determined answer is not one of the possible ones."""
        rounding = _rounding(found)
        beyond = (found[0] < self.least - rounding) | (found[0] > self.most + rounding)
        return bool((beyond & _is_determined(found)).any())

    def uninformed(self, found: Ends) -> NDArray[np.bool_]:
        """Return which determined answers have an interval that contains all possible ones."""
        rounding = _rounding(found)
        every = (found[1] <= self.least + rounding) & (found[2] >= self.most - rounding)
        return np.asarray(every & (self.least < self.most) & _is_determined(found))


def possible_answers(asked: Asked, terms: Sequence[Sequence[Term]]) -> PossibleAnswers:
    """Return the possible answers of a question.

    Args:
        asked: The question on the measured columns.
        terms: Its terms, as `answering.terms_of` returns them.
    """
    if asked.question.measure == "quantile" or asked.question.is_of_spread:
        known = asked.counts(values=asked.has_value)
        pairs = [[Term(asked.counts(values=each), known)] for each in asked.bounds]
    else:
        pairs = [list(terms[0])] if len(terms) == 1 else [list(each) for each in terms[1:]]
    shape = tuple(len(rows) for rows in asked.groups)
    least, most = (
        np.broadcast_to(_range_of(each, asked.possible)[place], shape).ravel()
        for place, each in enumerate((pairs[0], pairs[-1]))
    )
    if asked.question.is_of_spread:
        least, most = _of_spread(asked.question, least, most)
    return PossibleAnswers(least, most, asked.question.adds_up)


def _of_spread(question: Question, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and largest measure of spread of values between two bounds."""
    part = float(question.quantile or 0)
    low, high = SPREAD_MEASURES[question.measure].possible(least, most, part)
    # All values are equal where only one is possible.
    high = np.where(most > least, high, part)
    none = np.isnan(least)
    return np.where(none, np.nan, np.minimum(low, high)), np.where(none, np.nan, high)


def moved_to(values: Floats, found: Ends) -> Ends:
    """Return answers with other estimates, and intervals that cover no less than before.

    Args:
        values: The estimates.
        found: Answers; undetermined ones stay as they are.
    """
    known = _is_determined(found)
    old, low, high = found
    with np.errstate(invalid="ignore"):
        shift = np.where(known, values - old, 0.0)
    return np.where(known, values, old), low + np.minimum(shift, 0.0), high + np.maximum(shift, 0.0)


def _rounding(found: Ends) -> Floats:
    return 1e-9 * (1 + np.abs(found[0]))


def _is_determined(found: Ends) -> NDArray[np.bool_]:
    return np.isfinite(found[1]) & np.isfinite(found[2])


def _range_of(terms: Sequence[Term], boxes: Sequence[Functionals]) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of a term, or of the first minus the second."""
    (low, high), *others = [_range(each.top, each.bottom, boxes) for each in terms]
    for other_low, other_high in others:
        low, high = low - other_high, high - other_low
    return low, high


def check_informative(question: Question, possible: PossibleAnswers) -> None:
    """Refuse a question whose answer is the same for every file.

    Args:
        question: The question.
        possible: Its possible answers.

    Raises:
        BadInput: if no group has two possible answers; the message says what to ask.
    """
    least, none = possible.least, np.isnan(possible.least)
    if not (none | (least == possible.most)).all():
        return
    if none.all():
        raise BadInput(
            f"The schema allows no record in `{question.in_words}`; leave a condition out."
        )
    values = np.unique(least[~none])
    fixed = "the same for every file"
    if len(values) == 1 and (possible.adds_up or question.measure == "ratio"):
        number = 100 * values[0] if question.measure == "share" else values[0]
        fixed = f"{number:g}{' %' if question.measure == 'share' else ''} for every file"
    raise BadInput(f"`{question.in_words}` is {fixed}: {_meant(question)}.")


def _meant(question: Question) -> str:
    """Return what to ask instead of a question whose answer is fixed."""
    if question.between is not None:
        return "name groups after `between` that do not fix what is compared"
    if question.number is not None:
        return f"leave out what fixes {question.number}, or ask for `share by {question.number}`"
    conditions = question.of or question.to or question.where
    column = question.levels_of or (conditions[0].column if conditions else None)
    named = " and ".join(each.text for each in conditions)
    offered = [f"share of {named}"] if named else []
    offered += [f"share by {column}"] if column else []
    offered = [f"`{each}`" for each in offered if each != question.in_words]
    return f"ask for {' or '.join(offered or ['`share by COLUMN`'])}"


def _range(
    top: Functionals, bottom: Functionals | None, boxes: Sequence[Functionals]
) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value of a sum or ratio, in the shape of its rows."""
    low = high = beyond = np.full(top.shape, np.nan)
    for box in boxes:
        over = top.times(box).weights
        ones = [np.ones_like(each) for each in over]
        under = ones if bottom is None else bottom.times(box).weights
        least, most = _quotients(over, under)
        low, high = np.fmin(low, least), np.fmax(high, most)
        # Records outside the denominator may be any number.
        beyond = np.fmax(beyond, np.where(np.isnan(least), _quotients(over, ones)[1], np.nan))
    if bottom is None:
        # The counts of the cells are any numbers from 0 on.
        return np.where(low < 0, -np.inf, 0.0), np.where(high > 0, np.inf, 0.0)
    return low, np.where((beyond > 0) & ~np.isnan(low), np.inf, high)


def _quotients(tops: Sequence[Floats], bottoms: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the smallest and the largest quotient of the weights of a cell.

    The weight of a cell is the product of one weight for each column, so the range of the quotients
    is the product of those of the columns.

    Args:
        tops: Weights of the numerator for each column, shape (rows, codes).
        bottoms: Those of the denominator, with as many rows or one.

    Returns:
        Arrays with one axis for each column; NaN where the denominator has no cell.
    """
    low = high = np.ones((1,) * len(tops))
    for axis, pair in enumerate(zip(tops, bottoms, strict=True)):
        top, bottom = np.broadcast_arrays(*pair)
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = top / bottom  # NaN where both are 0
        nothing = np.isnan(quotient)
        absent = (bottom == 0).all(axis=1)
        first = np.where(nothing, np.inf, quotient).min(axis=1)
        last = np.where(nothing, -np.inf, quotient).max(axis=1)
        shape = [len(first) if place == axis else 1 for place in range(len(tops))]
        own = [np.where(absent, np.nan, each).reshape(shape) for each in (first, last)]
        ends = [_product(one, other) for one in (low, high) for other in own]
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    return low, high


def _product(one: Floats, other: Floats) -> Floats:
    """Return a product in which 0 times infinity is 0."""
    with np.errstate(invalid="ignore"):
        product = one * other
    empty = np.isnan(one) | np.isnan(other)
    return np.where(~empty & ((one == 0) | (other == 0)), 0.0, product)
