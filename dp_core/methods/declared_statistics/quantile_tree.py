"""Quantiles by group from noisy counts of ranges of several widths.

The positions of a number are divided into ranges, the leaves of a tree. The counts of every level
of the tree are measured by group. The counts of the leaves are estimated by generalised least
squares from all levels (Hay et al. 2010, Section 4), and the counts below each edge are inverted
(`dp_core.inference.count_intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Totals
from dp_core.inference.count_intervals import cut_weights, quantile_bins, rounded_up
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.declared_statistics.value_table import Edges, ValueTable
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws
from dp_core.schema.definition import Column

Floats = NDArray[np.float64]

MOST_LEAVES = 1000
"""Largest number of leaves."""
_MOST_CELLS = 2**22  # largest number of leaves of all groups together
_LEVELS = ((16, 1), (32, 2))  # largest numbers of leaves for a tree of one level, two levels, ...
_MOST_LEVELS = 3


def tree_edges(table: ValueTable) -> tuple[Edges, ...]:
    """Return the edges of each level of the tree, the coarsest level first.

    Args:
        table: The number and its groups.
    """
    positions = table.values.positions
    most = max(2, min(MOST_LEAVES, _MOST_CELLS // table.groups))
    width = -(-positions // most)
    leaves = (*range(0, positions, width), positions)
    count = len(leaves) - 1
    levels = next((levels for least, levels in _LEVELS if count <= least), _MOST_LEVELS)
    branching = math.ceil(count ** (1 / levels))
    found = []
    for level in range(levels - 1, -1, -1):
        step = branching**level
        found.append((*leaves[:-1:step], positions))
    return tuple(found)


def tree_questions(table: ValueTable) -> tuple[BinnedCounts, ...]:
    """Return the question for the counts of each level, the coarsest first."""
    return tuple(table.counts(edges) for edges in tree_edges(table))


def tree_parts(table: ValueTable) -> Mapping[str, Fraction]:
    """Return the part of a tree's budget for each level, by name."""
    levels = len(tree_edges(table))
    return {f"level-{number}": Fraction(1, levels) for number in range(1, levels + 1)}


def tree_answers(table: ValueTable, measured: Sequence[object]) -> tuple[Totals, ...] | None:
    """Return the answers to the questions of a tree; None if the release did not measure them.

    Args:
        table: The number and its groups.
        measured: Everything that the release measured.
    """
    own = [each for each in measured if isinstance(each, Totals) and each.stage == "analyses"]
    found = [
        next((each for each in own if each.of == question), None)
        for question in tree_questions(table)
    ]
    return None if any(each is None for each in found) else tuple(each for each in found if each)


def tree_quantiles(
    table: ValueTable,
    column: Column,
    answers: Sequence[Totals],
    weights: Floats,
    q: float,
    level: float,
    known: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return quantiles and both ends of their intervals, each of shape (results,).

    The ends are infinite where the number of records cannot be distinguished from 0.

    Args:
        table: The number and its groups.
        column: Column of the number, stored on its grid.
        answers: Answers to `tree_questions`.
        weights: 1 for each group of the table that is in a result, otherwise 0, shape (results,
            groups).
        q: Which quantile, above 0 and below 1.
        level: Confidence level of the intervals.
        known: Numbers of records of the groups from other measurements, and their variances, shape
            (groups,) each; None (the default) if there are none.
    """
    leaves = np.array(tree_edges(table)[-1])
    # The variances of the groups are about equal; the largest is safe.
    of_known = None if known is None else float(known[1].max())
    kept, noise = _deviations(table, [each.variance for each in answers], q, of_known)
    nodes = [table.present(each.values) for each in answers]
    if known is not None:
        nodes.append(known[0][:, None])
    counts = weights @ np.concatenate(nodes, axis=1)
    groups = weights.sum(axis=1, keepdims=True)
    variance = kept**2 @ noise
    fourth = (3.0 if answers[0].noise == "laplace" else 0.0) * (kept**4 @ noise**2)
    factor = central_quantile(level, effective_draws(groups * variance, groups * fourth))
    half = rounded_up(factor * np.sqrt(groups * variance), groups * variance)
    found = quantile_bins(counts @ kept.T, half)
    stored = [float(edge) for edge in column.stored.edges]
    low = np.array([stored[place] for place in leaves[:-1]])
    high = np.array([stored[place] for place in leaves[1:]])
    if column.type.whole:
        low, high = np.ceil(low), np.ceil(high) - 1
    values = low[found.place] + found.part * (high - low)[found.place]
    if column.type.whole:
        values = np.rint(values)
    unknown = ~found.determined
    return (
        np.where(unknown, np.nan, values),
        np.where(unknown, -np.inf, low[found.first]),
        np.where(unknown, np.inf, high[found.last]),
    )


def rank_noise(table: ValueTable, variances: Sequence[float], q: float) -> float:
    """Return the standard deviation of the noise of the rank of a quantile of one group.

    Args:
        table: The number and its groups.
        variances: Variance of the noise of a count of each level.
        q: Which quantile.

    Returns:
        The largest of all edges, in records.
    """
    kept, noise = _deviations(table, variances, q)
    return float(np.sqrt((kept**2 @ noise).max()))


def _deviations(
    table: ValueTable, variances: Sequence[float], q: float, known: float | None = None
) -> tuple[Floats, Floats]:
    """Return the deviations at the edges as sums of the noisy counts, and their noise.

    Args:
        table: The number and its groups.
        variances: Variance of the noise of a count of each level.
        q: Which quantile.
        known: Variance of another estimate of the number of records, which is the last count; None
            if there is none.

    Returns:
        Weights of the counts of all levels, shape (edges, nodes), and the variance of the noise of
        each count, shape (nodes,).
    """
    edges = tree_edges(table)
    leaves = np.array(edges[-1])
    nodes, noise = [], []
    for own, variance in zip(edges, variances, strict=True):
        start = np.searchsorted(own, leaves[:-1], side="right") - 1
        nodes.append(start[None, :] == np.arange(len(own) - 1)[:, None])
        noise.append(np.full(len(own) - 1, max(variance, 1e-12)))
    if known is not None:
        nodes.append(np.ones((1, len(leaves) - 1), dtype=np.bool_))
        noise.append(np.array([max(known, 1e-12)]))
    design, every = np.concatenate(nodes).astype(np.float64), np.concatenate(noise)
    weighted = design / every[:, None]
    solved = np.linalg.solve(design.T @ weighted, weighted.T)
    return cut_weights(len(leaves) - 1, q) @ solved, every
