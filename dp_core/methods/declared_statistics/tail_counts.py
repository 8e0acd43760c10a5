"""Estimated numbers of records by group and layer, from noisy counts.

The counts of the outer layers are too small to be distinguished from noise. So the counts of all
groups together are extrapolated beyond the last significant counts. As a function of the number of
the layer, the logarithm of the counts is a straight line for a Pareto distribution, and a parabola
for a log-normal one. The extrapolation lies between the two: a line through the last significant
counts, with a slight downward curvature. If fewer than four counts are significant, a concave
parabola is fitted to all counts from the mode outwards. This fit can leave out the first layers,
because in many columns one value, such as 0 or 1, is far more frequent than the others. The
parabolas that fit nearly as well bound the number of records that noise may hide (profile
likelihood).

The distribution of a group is that of all groups, shifted along the layers to fit the group's own
counts. These counts then correct it further, as far as groups differ by more than noise (James and
Stein 1961, one factor for each layer).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.declared_statistics.layers import Layers

Floats = NDArray[np.float64]

_LEAST_SLOPE = 0.25  # the counts of layers fall at least by this much in the logarithm, outwards
_STANDS_OUT = 3.0  # least significant count, in standard deviations of the noise
_BENT = 0.09  # by how much the slope of the line falls from one layer to the next
_LINE = 3  # number of layers through which the line goes
_APART = 2
"""Number of layers at the mode that may be left out of a parabola; more if counts stand out beyond
them, as those of positive values beyond many zeros."""
_PRICE = 3.0  # by how much a layer that is left out must improve the fit, in units of chi-squared
_PLAUSIBLE = 4.0  # how much worse a plausible distribution may fit than the best, in chi-squared
_HIDDEN_SLOPE = (
    0.6  # as `_LEAST_SLOPE`, beyond the counts that are significant: nearly a finite mean
)
_BOUND = 3.0  # largest expected noise, in standard deviations
_SPREAD = 2.0  # largest standard deviation of counts between groups, relative to their mean
_MOVE = 2.5  # standard deviation of the differences between groups, in layers
_FARTHEST = 8.0  # largest difference, in layers
_CURVES = -np.concatenate([[0.0], np.geomspace(0.005, 0.1, 8)])
_SLOPES = np.linspace(-2.0, 1.0, 61)


@dataclass(frozen=True, slots=True, eq=False)
class TailCounts:
    """Estimated counts.

    Attributes:
        counts: Estimated number of records, at least 0, shape (groups, layers).
        variance: Variance of their error, same shape.
        doubt: Number of further records under the largest plausible extrapolation, same shape: an
            error of all groups together.
        own_doubt: Number of further records under the largest plausible distribution of the group
            itself, same shape. It is an error of each group by itself, two standard deviations.
    """

    counts: Floats
    variance: Floats
    doubt: Floats
    own_doubt: Floats


def tail_counts(
    pooled: Floats,
    pooled_variance: float,
    noisy: Floats,
    variance: float,
    totals: Floats,
    layers: Layers,
) -> TailCounts:
    """Return the estimated counts.

    Args:
        pooled: Noisy counts of all groups together, shape (layers,).
        pooled_variance: Variance of their noise.
        noisy: Noisy counts, shape (groups, layers).
        variance: Variance of their noise.
        totals: Estimated number of records of each group.
        layers: The layers.
    """
    others = variance * len(noisy)
    weight = others / max(others + pooled_variance, 1e-300) if others > 0 else 1.0
    mixed = weight * pooled + (1 - weight) * noisy.sum(axis=0)
    noise = others * pooled_variance / max(others + pooled_variance, 1e-300)
    shape = np.maximum(mixed, 0.0)
    most = shape.copy()
    if noise > 0:
        for above in (True, False):
            own = np.flatnonzero(layers.above == above)
            outwards = own if above else own[::-1]
            shape[outwards], most[outwards] = _falling(mixed[outwards], noise)
    whole = float(shape.sum())
    part = shape / whole if whole > 0 else np.full(len(shape), 1 / len(shape))
    own_totals = np.maximum(totals, 0.0)[:, None]
    moved, farthest = _moved(part, noisy, variance, totals, layers)
    expected = own_totals * moved
    # All groups together have the distribution that was fitted to them.
    together = expected.sum(axis=0)
    ratio = np.ones(len(part))
    np.divide(own_totals.sum() * part, together, out=ratio, where=together > 0)
    expected = expected * ratio
    spread = np.maximum(((noisy - expected) ** 2).mean(axis=0) - variance, 0.0)
    # The spread of a few groups is itself uncertain. Counts differ by several times their mean at
    # most, so that noise does not put records into the outermost layers.
    spread = np.maximum(spread - 2 * variance * np.sqrt(2 / len(noisy)), 0.0)
    spread = np.minimum(spread, _SPREAD**2 * (expected**2).mean(axis=0))
    kept = spread / np.maximum(spread + variance, 1e-300) if variance > 0 else np.ones(len(shape))
    counts = np.maximum(expected + kept * (noisy - expected), 0.0)
    # A group's part of the further records is its part of the layer's or of all records.
    together = expected.sum(axis=0)
    parts = np.tile(own_totals / max(float(own_totals.sum()), 1e-300), len(part))
    np.divide(expected, together, out=parts, where=together > 0)
    doubt = np.maximum(most - shape, 0.0) * parts
    # A group may have more records than is estimated, too.
    greatest = (own_totals + 2 * np.sqrt(variance)) * farthest * ratio
    return TailCounts(
        counts,
        np.broadcast_to(kept * variance, counts.shape).copy(),
        doubt,
        np.maximum(greatest - counts, 0.0),
    )


def _moved(
    part: Floats, noisy: Floats, variance: float, totals: Floats, layers: Layers
) -> tuple[Floats, Floats]:
    """Return the distribution of each group: that of all groups, shifted along the layers.

    The shift has the largest posterior density given the noisy counts, with a normal prior of
    standard deviation `_MOVE` layers. So a group of larger firms has a longer tail than the others,
    although its own counts of the outer layers are noise.

    Args:
        part: Distribution of all groups together, shape (layers,).
        noisy: Noisy counts, shape (groups, layers).
        variance: Variance of their noise.
        totals: Estimated number of records of each group.
        layers: The layers.

    Returns:
        The distributions, and for each layer the largest part of those that fit nearly as well;
        each of shape (groups, layers).
    """
    moves = np.arange(-_FARTHEST, _FARTHEST + 0.25, 0.5)
    forms = []
    for move in moves:
        form = np.zeros(len(part))
        for above in (True, False):
            own = np.flatnonzero(layers.above == above)
            outwards = own if above else own[::-1]
            if len(outwards):
                form[outwards] = _shifted(part[outwards], float(move))
        forms.append(form)
    number = np.maximum(totals, 1.0)[:, None]
    score = np.empty((len(noisy), len(moves)))
    for place, (move, form) in enumerate(zip(moves, forms, strict=True)):
        wanted = number * form
        weight = 1 / (variance + np.maximum(wanted, 0.5))
        score[:, place] = ((noisy - wanted) ** 2 * weight - np.log(weight)).sum(axis=1)
        score[:, place] += (move / _MOVE) ** 2
    every = np.array(forms)
    plausible = score <= score.min(axis=1, keepdims=True) + _PLAUSIBLE
    farthest = np.where(plausible[:, :, None], every[None, :, :], 0.0).max(axis=1)
    return every[np.argmin(score, axis=1)], farthest


def _shifted(part: Floats, move: float) -> Floats:
    """Return a distribution over layers shifted outwards; what would leave stays at the end."""
    place = np.arange(len(part), dtype=np.float64) + move
    low = np.floor(place).astype(np.int64)
    upper = place - low
    found = np.zeros(len(part))
    last = len(part) - 1
    np.add.at(found, np.clip(low, 0, last), part * (1 - upper))
    np.add.at(found, np.clip(low + 1, 0, last), part * upper)
    return found


def _falling(counts: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return estimated counts; those that are not significant fall from the mode outwards.

    Args:
        counts: Noisy counts, the layer nearest to the origin first.
        noise: Variance of their noise.

    Returns:
        The estimated counts, and the largest plausible ones.
    """
    found = np.maximum(counts, 0.0)
    if not len(counts):
        return found, found
    smooth = np.convolve(np.pad(counts, 1, mode="edge"), (0.25, 0.5, 0.25), mode="valid")
    mode = int(np.argmax(smooth))
    own = counts[mode:]
    if len(own) < 2:
        return found, found
    best, greatest = _parabolas(own, noise)
    # Significant counts are kept instead of the fit. Beyond them, the logarithm is extrapolated
    # by a line through the last ones.
    hidden = np.flatnonzero(own <= _STANDS_OUT * np.sqrt(noise))
    run = int(hidden[0]) if len(hidden) else len(own)
    if run > _LINE:
        best = np.concatenate([own[:run], _line(own[:run], noise, len(own))])
    # The noisy counts bound the number of records; with little noise a layer is known to be empty.
    most = np.maximum(own, 0.0) + _BOUND * np.sqrt(noise)
    empty = most < 0.5
    best = np.where(empty, 0.0, np.minimum(best, most))
    greatest = np.where(empty, 0.0, np.minimum(np.maximum(greatest, best), most))
    return np.concatenate([found[:mode], best]), np.concatenate([found[:mode], greatest])


def _parabolas(own: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return counts whose logarithms are a concave parabola, and the largest plausible ones.

    Args:
        own: Noisy counts from the mode outwards, at least two.
        noise: Variance of their noise.

    Returns:
        The counts that fit best, and for each layer the largest count of those that fit nearly as
        well.
    """
    weight = 1 / (noise + np.maximum(own, 0.0))
    hidden = own <= _STANDS_OUT * np.sqrt(noise)
    clear = len(own) - int(np.argmin(hidden[::-1])) if not hidden.all() else 0
    forms, errors = [], []
    for apart in range(min(max(_APART, clear - 1), len(own) - 2) + 1):
        rest, trust = own[apart:], weight[apart:]
        place = np.arange(1.0, len(rest))
        steps = _SLOPES[None, :, None] + _CURVES[:, None, None] * (2 * place - 1)
        steps = np.minimum(steps.reshape(-1, len(place)), 0.4)
        if len(place) > 3:
            # Beyond all significant layers, the fall is steeper.
            least = np.where(np.arange(apart + 1, len(own)) >= clear, _HIDDEN_SLOPE, _LEAST_SLOPE)
            steps[:, 1:] = np.minimum(steps[:, 1:], -least[1:])
        form = np.exp(np.pad(np.cumsum(steps, axis=1), ((0, 0), (1, 0))))
        height = (form @ (trust * rest)) / (form**2 @ trust)
        form = np.maximum(height, 0.0)[:, None] * form
        before = np.broadcast_to(np.maximum(own[:apart], 0.0), (len(form), apart))
        forms.append(np.hstack([before, form]))
        errors.append((rest - form) ** 2 @ trust + _PRICE * apart)
    every, off = np.concatenate(forms), np.concatenate(errors)
    plausible = every[off <= off.min() + _PLAUSIBLE]
    return every[np.argmin(off)], plausible.max(axis=0)


def _line(own: Floats, noise: float, layers: int) -> Floats:
    """Return the counts beyond the significant ones, along a slightly curved line of logarithms.

    Args:
        own: The significant counts, more than `_LINE`.
        noise: Variance of their noise.
        layers: Number of layers, with those beyond.
    """
    run = len(own)
    at = np.arange(run - _LINE, run)
    trust = np.sqrt(own[at] ** 2 / (noise + own[at]))
    slope, level = np.polyfit(at, np.log(own[at]), 1, w=trust)
    slope = float(np.clip(slope, -3.0, -_LEAST_SLOPE))
    level = float(np.average(np.log(own[at]) - slope * at, weights=trust**2))
    place = np.arange(run, layers, dtype=np.float64)
    steps = place - (run - 1)
    return np.asarray(np.exp(level + slope * place - _BENT * steps * (steps - 1) / 2))
