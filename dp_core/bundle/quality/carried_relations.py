"""Which relations between columns a release carries, and which noise hides; from public values.

A measured pair carries a relation if noise and chance would rarely have made its interaction R, the
part of its table that its columns do not determine, less that of the product of its columns. With
independent columns R has three parts: the noise of the pair, of variance v in each coordinate; the
noise of the columns in the product; and the sampling of the file. Its covariance is about

    v I + v_a I (x) u_b u_b' + v_b u_a u_a' (x) I + n G_a (x) G_b,    u = p - 1/size,

with p a column's shares, v_a the variance of a coordinate of its noisy table, and G the covariance
diag(p) - pp' without its mean. So |R|^2 is compared with a multiple of a chi-squared variable of
the same mean and variance (Satterthwaite 1946). Laplace noise adds its kurtosis to the variance. If
skewed columns are known from the pair only, the tails are heavier, and more pairs stand out: 3 % of
6 x 6 levels of which one has .9 of the records, 11 % of 11 x 11 with .97.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.quality.relations import measured_cliques, pool_release
from dp_core.client.released import Released
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.methods.reconstruction.estimates.raking import without_dependence
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.methods.trends import NoisyTrend, trends_of
from dp_core.schema.definition import Schema
from dp_core.text.pages.number_texts import plural

FALSE_ALARM = 0.001
"""Probability with which noise and chance make an independent pair stand out."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class CarriedRelations:
    """How many relations a set carries.

    Attributes:
        pairs: Number of pairs of columns of two levels or more; 0 if no table of counts was
            measured, or the measured tables do not tell.
        clear: Number of measured pairs that stand out from noise and chance.
        hidden: The other measured pairs.
        missing: Pairs that no measured table contains.
        numbers: Pairs of columns with ordered values that are hidden or missing, and whose trend
            does not stand out either.
        trends: Number of measured trends, and how many of them stand out.
        larger: Number of measured tables of three columns and more.
    """

    pairs: int
    clear: int
    hidden: tuple[Clique, ...]
    missing: tuple[Clique, ...]
    numbers: tuple[Clique, ...]
    larger: int
    trends: tuple[int, int] = (0, 0)

    @property
    def in_words(self) -> str:
        """What a set carries, in sentences; empty without `pairs`."""
        if not self.pairs:
            return ""
        stand = "stands" if self.clear == 1 else "stand"
        said = [
            f"Of {plural(self.pairs, 'pair')} of columns, {self.clear:,} {stand} out from the noise"
            " and from chance."
        ]
        if self.hidden:
            said.append(
                f"Noise hides the relation of {len(self.hidden):,} more that were measured; with a"
                " larger epsilon, or with fewer columns, it would hide fewer."
            )
        if self.missing:
            said.append(
                f"For {plural(len(self.missing), 'pair')} no table was measured; there the sets"
                " follow the model."
            )
        if self.trends[0]:
            stand = "stands" if self.trends[1] == 1 else "stand"
            said.append(
                f"Of {plural(self.trends[0], 'measured trend')}, {self.trends[1]:,} {stand} out."
            )
        if self.numbers:
            named = [" × ".join(pair) for pair in self.numbers[:_NAMED]]
            if len(self.numbers) > _NAMED:
                named.append(f"{len(self.numbers) - _NAMED:,} more")
            shown = "Neither tables nor trends" if self.trends[0] else "The noisy tables do not"
            said.append(f"{shown} show these correlations: {', '.join(named)}.")
        if not self.larger:
            said.append(
                "No table of three columns was measured: the sets have such relations only as far"
                " as pairs imply them."
            )
        return " ".join(said)

    def to_json(self) -> dict[str, object]:
        """Return the numbers, and the sentences."""
        return {
            "pairs": self.pairs,
            "clear": self.clear,
            "hidden": len(self.hidden),
            "missing": len(self.missing),
            "larger": self.larger,
            "trends": list(self.trends),
            "in_words": self.in_words,
        }


def carried_relations(released: Sequence[Released], schema: Schema) -> CarriedRelations:
    """Return which relations a set of a release carries.

    Args:
        released: Everything that was measured; only what serves the first set is used.
        schema: Schema in whose codes the tables are.
    """
    own = [item for item in released if item.replicate in (0, 1)]
    pooled, (tables, _) = pool_release(schema, own), measured_cliques(own)
    domain, nested = pooled.domain, pooled.domain.nested
    others = () if schema.linked is None else schema.linked.others
    columns = [n for n in domain.columns if n not in others and domain.size((n,)) > 1]
    pairs = [
        pair
        for pair in combinations(columns, 2)
        if nested is None or not {*pair} <= {*nested.columns}
    ]
    measured = any(tables.values())
    missing = unmeasured_groups(pairs, tables, nested) if measured else ()
    left_out = {*missing}
    judged = {
        pair: clear
        for pair in pairs
        if pair not in left_out and (clear := _stands_out(pair, schema, pooled)) is not None
    }
    hidden = tuple(pair for pair, clear in judged.items() if not clear)
    ordered = {each.name for each in schema.columns if not each.levels or each.type.ordered}
    trends = trends_of(domain, own)
    shown = {trend.pair for trend in trends if _trend_stands_out(trend, schema, pooled)}
    return CarriedRelations(
        pairs=len(pairs) if measured and (judged or missing) else 0,
        clear=len(judged) - len(hidden),
        hidden=hidden,
        missing=missing,
        numbers=tuple(
            pair for pair in (*hidden, *missing) if {*pair} <= ordered and pair not in shown
        ),
        trends=(len(trends), len(shown)),
        larger=len({clique for found in tables.values() for clique in found if len(clique) > 2}),
    )


def _trend_stands_out(trend: NoisyTrend, schema: Schema, pooled: Pooled) -> bool:
    """Return whether noise and chance would rarely have made a pair's trend.

    It is False if the measurements do not tell both columns.
    """
    from scipy.special import chdtri

    ones = [each for name in trend.pair if (each := pooled.counts((name,))) is not None]
    if len(ones) < 2:
        return False
    one, other = (np.maximum(each, 0.0) for each in ones)
    expected = without_dependence(pooled.domain, trend.pair, one, other, zeros=schema.zeros)
    by_chance = float((np.square(trend.weights) * expected).sum())
    rest = float(trend.beyond(expected).values[0])
    return rest**2 > (trend.variance + by_chance) * float(chdtri(1, FALSE_ALARM))


def _stands_out(pair: Clique, schema: Schema, pooled: Pooled) -> bool | None:
    """Return whether noise and chance would rarely have made a pair's interaction.

    It is None if the measurements do not tell the interaction and both columns.
    """
    from scipy.special import chdtri

    told = pooled.observed(pair)
    ones = [each for name in pair if (each := pooled.counts((name,))) is not None]
    if told is None or len(ones) < 2:
        return None
    one, other = (np.maximum(each, 0.0) for each in ones)
    expected = without_dependence(pooled.domain, pair, one, other, zeros=schema.zeros)
    mean, half = _moments(pair, pooled, told[1], one, other)
    size = float(np.square(told[0] - beyond(expected)).sum())
    return size > half / mean * float(chdtri(mean**2 / half, FALSE_ALARM))


def _moments(
    pair: Clique,
    pooled: Pooled,
    variance: float,
    one: NDArray[np.float64],
    other: NDArray[np.float64],
) -> tuple[float, float]:
    """Return the mean of the squared interaction of independent columns, and half its variance.

    Args:
        pair: The columns.
        pooled: All measurements.
        variance: Noise variance of a coordinate of the interaction, records squared.
        one: Nonnegative counts of the first column, shape (p,).
        other: Those of the second column, shape (q,).
    """
    total = max(float(one.sum()), 1.0)
    shares = [each / max(float(each.sum()), 1e-9) for each in (one, other)]
    u = [each - 1 / each.size for each in shares]
    g = [beyond(np.diag(each) - np.outer(each, each)) for each in shares]
    noise = [1 / pooled.precision((name,)) for name in pair]
    free = [each.size - 1 for each in shares]
    u2, tr = [float(each @ each) for each in u], [float(np.trace(each)) for each in g]
    squared, along = (
        [float(np.square(each).sum()) for each in g],
        [float(each @ within @ each) for each, within in zip(u, g, strict=True)],
    )
    coordinates = free[0] * free[1]
    of_columns = noise[0] * free[0] * u2[1] + noise[1] * free[1] * u2[0]
    sampled = total * tr[0] * tr[1]
    half = variance**2 * coordinates + total**2 * squared[0] * squared[1]
    half += noise[0] ** 2 * free[0] * u2[1] ** 2 + noise[1] ** 2 * free[1] * u2[0] ** 2
    half += 2 * variance * (of_columns + sampled) + 2 * noise[0] * noise[1] * u2[0] * u2[1]
    half += 2 * total * (noise[0] * tr[0] * along[1] + noise[1] * tr[1] * along[0])
    if pooled.noise == "laplace":
        half += 1.5 * variance**2 * coordinates  # a kurtosis of 3 above the normal one
    return variance * coordinates + of_columns + sampled, half
