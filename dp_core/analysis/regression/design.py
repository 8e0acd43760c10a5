"""Outcome and design matrix of a regression, with the same coding in every set."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dp_core.analysis.regression.frames import Frame, levels_of, measured_codes, public_frame
from dp_core.analysis.regression.survey_sample import Sample
from dp_core.bundle.report.provenance import enumeration
from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import Formula, check_factors, compared_with, is_column
from dp_core.schema.definition import Schema

Floats = NDArray[np.float64]
Family = Literal["linear", "logistic", "multinomial", "poisson"]
FAMILIES: tuple[Family, ...] = get_args(Family)

_HIDDEN = 0.5  # part of a function's variance that bins must leave
_LINEAR = 1 - 1e-9  # correlation with the number itself from which a function counts as linear
MAX_COLUMNS = 5_000
"""Most columns of a design; a regression of this size takes minutes."""

_YES = frozenset({"yes", "y", "true", "1", "ja", "oui", "si", "sí", "sim"})
_NO = frozenset({"no", "n", "false", "0", "nein", "non", "não"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a regression.

    Attributes:
        name: Left side of the formula.
        family: Family of the regression.
        levels: Levels of a category, the reference first; empty for a number.
        in_words: Phrase that says what is modelled.
    """

    name: str
    family: Family
    levels: tuple[str, ...]
    in_words: str


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Numeric outcome and design matrix of every set.

    Attributes:
        names: Names of the columns of x.
        outcome: Meaning of y.
        y: For each set, shape (rows,): a number, or the index of the level.
        x: For each set, shape (rows, columns).
        notes: Remarks about the coding for the reader.
        weights: For each set, shape (rows,); empty if the analysis is not weighted.
        terms: For each column of x, the position of its term in `Formula.terms`.
        samples: For each set, its sample design; empty if the analysis is not by the design.
        corners: Made-up rows with the levels and the ends of the predictors (`public_frame`), a
            pandas frame, and their x; None if the formula cannot be computed for them.
        also: For each set, columns that are fitted but get no coefficient, because some set does
            not determine them, shape (rows, columns); empty if there are none.
        undetermined: Their names.
        references: Reference level of each category whose levels have coefficients.
        hidden_in_bins: Names of columns of x that are functions of numbers which vary mostly within
            bins; found if numbers enter by their means in a bin.
    """

    names: tuple[str, ...]
    outcome: Outcome
    y: tuple[Floats, ...]
    x: tuple[Floats, ...]
    notes: tuple[str, ...]
    weights: tuple[Floats, ...] = ()
    terms: tuple[int, ...] = ()
    samples: tuple[Sample, ...] = ()
    corners: tuple[Any, Floats] | None = None
    also: tuple[Floats, ...] = ()
    undetermined: tuple[str, ...] = ()
    references: Mapping[str, str] = field(default_factory=dict)
    hidden_in_bins: tuple[str, ...] = ()


def make_design(
    formula: Formula,
    frames: Sequence[Frame],
    schema: Schema,
    family: Family | None,
    references: Mapping[str, str] | None = None,
    *,
    by_bin: bool = False,
) -> Design:
    """Return outcome and design of every set.

    What a function takes from the data (the mean in `center`, the knots of `bs`) comes from all
    sets together, so that a coefficient means the same in each.

    A category's levels are compared with its most frequent one, unless the formula names another.
    Noise and sampling error of a rare reference level would be in every coefficient.

    Args:
        formula: Formula with columns of the frames.
        frames: One for each set.
        schema: Schema of the release.
        family: Requested family; None if it follows from the outcome.
        references: Reference levels of categories; None (the default) for the most frequent ones.
        by_bin: Whether numbers enter by their means in a bin (`bin_means`); False by default.

    Raises:
        BadInput: if the formula cannot be computed, a design is collinear, no coefficient is
            determined in every set, or the family does not fit the outcome.
    """
    import pandas as pd
    from patsy import EvalEnvironment, PatsyError
    from patsy.build import build_design_matrices, design_matrix_builders
    from patsy.missing import NAAction

    check_factors(formula, tuple(frames[0].data))
    frames, notes = _without_empty_levels(formula, frames, schema)
    if references is None:
        references = frequent_levels(formula, frames, schema)
    anything = NAAction(on_NA="raise", NA_types=[])
    uncomputable = (
        *(PatsyError, TypeError, ValueError, NameError, AttributeError, ArithmeticError),
        *(LookupError, AssertionError, MemoryError, RuntimeError),
    )
    description = compared_with(formula.description, references)
    whole = pd.concat([frame.data for frame in frames], ignore_index=True)
    _check_width(formula, whole)
    try:
        with np.errstate(all="ignore"):
            left, right = design_matrix_builders(
                [description.lhs_termlist, description.rhs_termlist],
                lambda: iter([whole]),
                EvalEnvironment([]),  # unused: our factors contain their own functions
                anything,
            )
            x = [
                np.asarray(build_design_matrices([right], frame.data, anything)[0], dtype=float)
                for frame in frames
            ]
            outcome_factor = description.lhs_termlist[0].factors[0]
            levels, y, first = _outcome(left, outcome_factor, frames, anything)
    except uncomputable as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise BadInput(
            f"The formula {formula.text!r:.120} cannot be computed on the sets ({reason})."
        ) from None
    # An intercept alone gives a design of one row.
    x = [
        np.broadcast_to(one, (frame.rows, one.shape[1]))
        for one, frame in zip(x, frames, strict=True)
    ]
    names = tuple(right.column_names)
    _check_finite(formula, names, y, x, frames)
    outcome, y = _coded_outcome(formula, schema, family, levels, y, first)
    weights = tuple(frame.weights for frame in frames if frame.weights is not None)
    terms = _terms(description.rhs_termlist, right)
    hidden: tuple[str, ...] = ()
    if by_bin:
        raw, x = x, bin_means(formula, frames, schema, terms, x)
        hidden = _hidden_in_bins(formula, frames, names, terms, raw, x)
    samples = tuple(frame.sample for frame in frames if frame.sample is not None)
    corners = None
    with contextlib.suppress(*uncomputable), np.errstate(all="ignore"):
        corners = _corners(formula, frames[0], schema, right)
    design = Design(
        *(names, outcome, tuple(y), tuple(x), tuple(notes), weights, terms, samples, corners),
        references=references,
        hidden_in_bins=hidden,
    )
    if len(np.unique(np.concatenate(y))) < 2:
        raise BadInput(f"{formula.outcome} has only one value, so there is nothing to model.")
    _check_rank(design, frames)
    return _without_undetermined(design)


def bin_means(
    formula: Formula,
    frames: Sequence[Frame],
    schema: Schema,
    terms: Sequence[int],
    x: Sequence[Floats],
) -> list[Floats]:
    """Return the design of every set with numbers replaced by their means given all bins.

    Within a bin, a set's values are independent of all other columns, so raw values attenuate a
    slope. Means of bins do not, because the rest of a value is unrelated to its mean (Berkson 1950,
    JASA 45). Each column of x gets its mean in the cells of the columns of its own term. If
    predictors are related, the mean within a bin also depends on the others: if the log density of
    a number x has the slope t there, the mean of f(x) is larger by about t Cov(f, x), with the
    covariance within the bin. t is the slope of a normal density of x given the other predictors,
    less that of a normal density of x alone, which the sets already follow.

    Args:
        formula: Formula with columns of the frames.
        frames: One for each set.
        schema: Schema of the release.
        terms: For each column of x, the position of its term.
        x: For each set, shape (rows, columns).
    """
    every, rows = np.concatenate(x), np.cumsum([len(each) for each in x])[:-1]
    names = [name for columns in formula.terms for name in columns]
    codes, values = measured_codes(names, frames, schema)
    slopes = _slopes_within(codes, values)
    for place, columns in enumerate(formula.terms):
        numbers = [name for name in columns if name in values]
        if not numbers or not {*columns} <= {*codes}:
            continue
        cells = np.zeros(len(every), dtype=np.intp)
        for name in columns:
            _, cells = np.unique(
                cells * schema.column(name).size + codes[name], return_inverse=True
            )
        off = {name: values[name] - _cell_means(cells, values[name]) for name in numbers}
        for at in np.flatnonzero(np.array(terms) == place):
            own = every[:, at].copy()
            every[:, at] = _cell_means(cells, own)
            for name in numbers:
                every[:, at] += slopes[name] * _cell_means(cells, own * off[name])
    return np.split(every, rows)


def _hidden_in_bins(
    formula: Formula,
    frames: Sequence[Frame],
    names: Sequence[str],
    terms: Sequence[int],
    raw: Sequence[Floats],
    means: Sequence[Floats],
) -> tuple[str, ...]:
    """Return the columns of functions of which at least half of the variance lies within bins.

    Means of bins leave the slope of a number, or of a linear function of it, as it is, but not that
    of a function which the mean of the outcome does not follow within the bins, such as
    `I(age == 40)`.
    """
    every, left = np.concatenate(raw), np.concatenate(means).var(axis=0)
    found = []
    for at, (name, term) in enumerate(zip(names, terms, strict=True)):
        if left[at] >= _HIDDEN * every[:, at].var():
            continue
        factors = formula.description.rhs_termlist[term].factors
        columns = formula.terms[term]
        if all(any(is_column(each.code, name) for name in columns) for each in factors):
            continue
        numbers = [
            np.concatenate([np.asarray(each.data[name]) for each in frames]) for name in columns
        ]
        if (
            len(columns) > 1
            or abs(np.corrcoef(numbers[0].astype(float), every[:, at])[0, 1]) < _LINEAR
        ):
            found.append(name)
    return tuple(found)


def _slopes_within(
    codes: Mapping[str, NDArray[np.intp]], values: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Return the slope of the log density of each number given the others, less that alone.

    Args:
        codes: Codes of all predictors, shape (rows,).
        values: Values of those that are numbers, shape (rows,).

    Returns:
        For each number, the difference of the two slopes for each row, shape (rows,).
    """
    means = {name: _cell_means(codes[name], own) for name, own in values.items()}
    found = {}
    for name, own in values.items():
        alone = means[name] - means[name].mean()
        others = [np.ones((len(own), 1))]
        for other, code in codes.items():
            if other == name:
                continue
            if other in values:
                others.append(means[other][:, None])
            else:
                others.append((code[:, None] == np.unique(code)[1:]).astype(np.float64))
        rest = np.hstack(others)
        given = alone - rest @ np.linalg.lstsq(rest, alone, rcond=None)[0]
        steep = [each / max(float(np.mean(each**2)), 1e-300) for each in (alone, given)]
        found[name] = steep[0] - steep[1]
    return found


def _cell_means(cells: NDArray[np.intp], values: Floats) -> Floats:
    """Return for each row the mean of the values in its cell."""
    means = np.bincount(cells, values) / np.maximum(np.bincount(cells), 1)
    return np.asarray(means[cells])


def frequent_levels(formula: Formula, frames: Sequence[Frame], schema: Schema) -> dict[str, str]:
    """Return the most frequent level of each category whose levels have coefficients.

    Args:
        formula: Formula with columns of the frames.
        frames: Complete rows of each set.
        schema: Schema of the release.
    """
    found = {}
    for column in schema.released:
        if column.levels and column.name in formula.by_level:
            counts = sum(frame.data[column.name].value_counts(sort=False) for frame in frames)
            found[column.name] = str(counts.index[int(np.argmax(counts))])
    return found


def _corners(
    formula: Formula, frame: Frame, schema: Schema, right: Any
) -> tuple[Any, Floats] | None:
    """Return the made-up rows of `Design.corners`, without levels that the sets do not have."""
    from patsy.build import build_design_matrices

    names = tuple(dict.fromkeys(name for term in formula.terms for name in term))
    data = public_frame(names, schema).data
    for name in names:
        if schema.column(name).levels:
            known = frame.data[name].cat.categories
            data = data[data[name].isin(known)]
            data = data.assign(**{name: data[name].cat.set_categories(known)})
    x = np.asarray(build_design_matrices([right], data)[0], dtype=float)
    x = np.broadcast_to(x, (len(data), x.shape[1]))
    kept = np.isfinite(x).all(axis=1)
    return (data[kept], x[kept]) if kept.any() else None


def _terms(terms: Sequence[Any], right: Any) -> tuple[int, ...]:
    """Return for each column of patsy's design the position of its term."""
    found = [0] * len(right.column_names)
    for term, part in right.term_slices.items():
        found[part] = [terms.index(term)] * (part.stop - part.start)
    return tuple(found)


def _check_width(formula: Formula, whole: Any) -> None:
    """Refuse a design with more than `MAX_COLUMNS` columns before it is built."""
    values = {name: int(whole[name].nunique()) for name in formula.columns}
    numbers = {name for name in formula.columns if whole[name].dtype.kind == "f"}
    wide = 0
    for term, names in zip(formula.description.rhs_termlist, formula.terms, strict=True):
        columns = 1
        for factor in term.factors:
            used = [name for name in names if name in factor.columns]
            levels = math.prod(values[name] for name in used)
            as_levels = not numbers.issuperset(used) or factor.is_category
            many = as_levels and factor.is_by_level
            columns *= max(min(levels, len(whole)) if many else 1, factor.splines)
        wide += columns
    if wide > MAX_COLUMNS:
        raise BadInput(
            f"The formula {formula.text!r:.120} would have more than {MAX_COLUMNS:,} coefficients;"
            " leave terms out, or model single levels."
        )


def _without_empty_levels(
    formula: Formula, frames: Sequence[Frame], schema: Schema
) -> tuple[list[Frame], list[str]]:
    """Return frames without levels that occur in no set, and a note on each."""
    frames, notes = list(frames), []
    for column in schema.released:
        if column.name not in formula.by_level or not column.levels:
            continue
        labels = levels_of(column)
        codes = [frame.data[column.name].cat.codes.to_numpy() for frame in frames]
        counts = np.array([np.bincount(each, minlength=len(labels)) for each in codes])
        gone = [label for place, label in enumerate(labels) if not counts[:, place].any()]
        left = [label for label in labels if label not in gone]
        if gone:
            notes.append(
                f"No set has {column.name} = {', '.join(map(repr, gone))}, so it has no"
                " coefficient."
            )
            frames = [
                replace(
                    frame,
                    data=frame.data.assign(
                        **{column.name: frame.data[column.name].cat.set_categories(left)}
                    ),
                )
                for frame in frames
            ]
    return frames, notes


def _sets(numbers: Sequence[int]) -> str:
    """Return an enumeration of sets.

    >>> _sets([2]), _sets([1, 3, 4])
    ('set 2', 'sets 1, 3 and 4')
    """
    return f"set{'s' * (len(numbers) > 1)} {enumeration([*map(str, numbers)])}"


def _outcome(
    info: Any, factor: Any, frames: Sequence[Frame], anything: Any
) -> tuple[tuple[str, ...], list[Floats], str | None]:
    """Return the levels of the outcome, its values in each set, and its reference level.

    A number has no levels. The reference level is None for a number, and without `Treatment` for an
    outcome whose levels the formula makes.
    """
    from patsy.categorical import categorical_to_int

    found = info.factor_infos[factor]
    values = [factor.eval(found.state, frame.data) for frame in frames]
    if found.type == "categorical":
        codes = [categorical_to_int(one, found.categories, anything) for one in values]
        contrast = getattr(values[0], "contrast", None)
        first = getattr(contrast, "reference", None)
        y = [np.asarray(one, dtype=float) for one in codes]
        return tuple(map(str, found.categories)), y, None if first is None else str(first)
    if found.num_columns != 1:
        raise ValueError("its outcome has several columns")
    return (), [np.asarray(one, dtype=float).reshape(-1) for one in values], None


def _check_finite(
    formula: Formula,
    names: Sequence[str],
    y: Sequence[Floats],
    x: Sequence[Floats],
    frames: Sequence[Frame],
) -> None:
    for frame, outcome, values in zip(frames, y, x, strict=True):
        wrong = ~np.isfinite(values)
        where = names[int(wrong.any(axis=0).argmax())] if wrong.any() else formula.outcome
        rows = int(wrong.any(axis=1).sum()) or int((~np.isfinite(outcome)).sum())
        if rows:
            raise BadInput(
                f"{where} is not finite in {rows:,} rows of set {frame.number}, for example"
                " because log(0) is not; log1p(0) is."
            )


def _coded_outcome(
    formula: Formula,
    schema: Schema,
    asked: Family | None,
    levels: tuple[str, ...],
    y: list[Floats],
    first: str | None,
) -> tuple[Outcome, list[Floats]]:
    """Return the outcome, and y coded for it; `first` is the reference level.

    Of two levels, it is the one that the formula names, or follows from what they say.
    """
    name = formula.outcome
    if not levels:
        family = asked or ("logistic" if _is_zero_one(formula, schema) else "linear")
        if family == "linear":
            return Outcome(name, family, (), f"the mean of {name}"), y
        if family == "poisson":
            for number, one in enumerate(y, start=1):
                if (one < 0).any() or (one != np.floor(one)).any():
                    raise BadInput(
                        f"--family poisson needs whole numbers from 0; {name} has other values in"
                        f" set {number}."
                    )
            return Outcome(name, family, (), f"the mean count of {name}, on the log scale"), y
        if family == "logistic" and all(np.isin(one, (0.0, 1.0)).all() for one in y):
            return Outcome(name, family, ("0", "1"), f"the log odds of {name} = 1"), y
        fit = "linear or --family poisson"
        raise BadInput(
            f"--family {family} needs a category, and {name} is a number: --family {fit}, or name"
            f" an event as the outcome, as in '{name} > 10 ~ ...'."
        )
    if asked in ("linear", "poisson"):
        fit = "logistic" if len(levels) == 2 else "multinomial"
        raise BadInput(
            f"--family {asked} needs a number, and {name} is a category: --family {fit}."
        )
    if len(levels) < 2:
        raise BadInput(f"{name} has only one value in all sets, so there is nothing to model.")
    family = asked or ("logistic" if len(levels) == 2 else "multinomial")
    if family == "logistic":
        if len(levels) > 2:
            raise BadInput(
                f"--family logistic needs two levels and {name} has {len(levels)}: --family"
                f' multinomial, or one level as the outcome, as in "{name} == {levels[0]!r} ~'
                ' ...".'
            )
        named = "Treatment(" in formula.outcome
        if (first == levels[1]) if named else _is_yes_first(levels):
            levels, y = (levels[1], levels[0]), [1 - one for one in y]
        event = name if set(levels) == {"False", "True"} else f"{name} = {levels[1]!r}"
        return Outcome(name, family, levels, f"the log odds of {event}"), y
    if first in levels:
        order = [levels.index(first), *(at for at, level in enumerate(levels) if level != first)]
        levels = tuple(levels[at] for at in order)
        y = [np.asarray(np.argsort(order)[one.astype(int)], dtype=float) for one in y]
    words = f"the log odds of each level of {name} against {levels[0]!r}"
    return Outcome(name, family, levels, words), y


def _is_yes_first(levels: Sequence[str]) -> bool:
    """Whether the levels are yes and no, in this order."""
    return levels[0].casefold() in _YES and levels[1].casefold() in _NO


def _is_zero_one(formula: Formula, schema: Schema) -> bool:
    """Whether the outcome is a whole number that can only be 0 or 1."""
    if formula.outcome not in schema.names:
        return False
    column = schema.column(formula.outcome)
    return column.type.whole and (column.minimum, column.maximum) == (0, 1)


def _check_rank(design: Design, frames: Sequence[Frame]) -> None:
    count = len(design.names) * max(len(design.outcome.levels) - 1, 1)
    for frame in frames:
        if frame.rows <= count:
            raise BadInput(
                f"Set {frame.number} has {frame.rows} complete rows, too few for {count}"
                " coefficients."
            )
    together = np.concatenate(design.x)
    used = np.flatnonzero(np.abs(together).max(axis=0))
    names = [design.names[place] for place in used]
    if everywhere := _redundant(together[:, used], names):
        raise BadInput(
            f"The design is collinear: {everywhere} is a combination of the other terms in every"
            " set; leave one of them out."
        )


def _without_undetermined(design: Design) -> Design:
    """Return the design with coefficients for the columns that every set determines.

    The other columns are fitted where a set has them (`also`), so that their rows do not count as
    those of the reference level.

    Raises:
        BadInput: if there is none.
    """
    lost = np.any([_undetermined(x) for x in design.x], axis=0)
    if not lost.any():
        return design
    names = [name for name, gone in zip(design.names, lost, strict=True) if gone]
    if lost.all():
        raise BadInput(
            f"No coefficient is determined in every set: {enumeration(names[:4])} are combinations"
            " of each other in some set, or always 0; leave a term out."
        )
    corners = design.corners
    if corners is not None:
        data, x = corners
        without = ~x[:, lost].any(axis=1)
        corners = (data[without], x[without][:, ~lost]) if without.any() else None
    return replace(
        design,
        names=tuple(name for name in design.names if name not in names),
        x=tuple(x[:, ~lost] for x in design.x),
        also=tuple(x[:, lost] for x in design.x),
        terms=tuple(np.array(design.terms)[~lost].tolist()),
        undetermined=tuple(names),
        corners=corners,
    )


def _undetermined(x: Floats) -> NDArray[np.bool_]:
    """Return which columns of a set's design have no determined coefficient, shape (columns,)."""
    length = np.sqrt((x**2).sum(axis=0))
    empty = length == 0
    triangle = linalg.qr(x / np.where(empty, 1.0, length), mode="r")[0][: x.shape[1]]
    _, sizes, directions = np.linalg.svd(triangle)
    free = directions[sizes <= 1e-9 * sizes[0]]
    return np.asarray(empty | (np.abs(free) > 1e-6).any(axis=0))


def _redundant(x: Floats, names: Sequence[str]) -> str:
    """Return the name of a column that depends on the others; empty if there is none."""
    length = np.sqrt((x**2).sum(axis=0))
    triangle = linalg.qr(x / length, mode="r")[0][: x.shape[1]]
    _, sizes, directions = np.linalg.svd(triangle)
    if sizes[-1] > 1e-9 * sizes[0]:
        return ""
    # Report the last of the columns that cancel each other.
    weight = np.abs(directions[-1])
    return names[int(np.flatnonzero(weight > 1e-3 * weight.max())[-1])]
