"""Counts of the synthetic sets, and what they tell of sums over the bins of a number.

A noisy table has noise in empty cells too. A mean or total multiplies it by their values, such as
those of the last bins of a long tail. Sets have no such noise, because their counts are never
negative. Let w_b be the weights of a sum over the bins of a group, r_b its records in the sets,
s_b the standard deviation of the noise of this count in the tables, and F the variance of the sum's
noise there. The sets have the fraction p = sum (w s min(1, r/s))^2 / sum (w s)^2 of this noise
(`dp_core.inference.set_noise`), and further errors with the variance E:

- *few*: the square of what bins with r < 2 s add, because their errors have the same sign. For a
  mean or quantile, that is how much it changes without them; infinite if there are no other bins;
- *drawn*: as records are drawn into the sets, which have a fixed number of them;
- *prior*: t^2 usual effects, if t of them are the standard error of the tables, without the bins
  that all groups have empty. A usual effect is the standard deviation of w in all records, times
  the records of the group. A prior with this standard deviation takes t^2 / (1 + t^2) of an effect,
  and nothing is told where it takes all;
- *contradictions*: by how much sets and tables differ beyond two standard errors of the tables: the
  prior does not expect a group that differs from all others.

The rest of the tables' noise, F (1 - p), is not in the sets. So an estimate weights the tables by
E and the sets by F (1 - p), and has the variance F p + E F (1 - p) / (E + F (1 - p)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.reading import Bundle
from dp_core.inference.set_noise import few_records, passed_part
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema

MOST_CELLS = 1 << 22
"""Most cells of a table that is counted in the sets."""
_CHANCE = 2.0
"""Standard errors of the tables by which sets may differ from them."""
CLEAR = 2.0
"""Standard deviations of the noise from which a count is not mostly noise."""


@dataclass(frozen=True, slots=True, eq=False)
class SetCounts:
    """Mean counts of the synthetic sets.

    Attributes:
        codes: Returns the codes of some columns in each set, one after the other.
        share: Records of the file that a record of all sets stands for.
    """

    codes: Callable[[Clique], Iterable[tuple[NDArray[np.integer], ...]]]
    share: float
    _tables: dict[Clique, Floats] = field(default_factory=dict, repr=False)

    def sums(self, asked: Functionals) -> Floats | None:
        """Return sums of counts, scaled to the records of the file; None if there are many cells.

        Args:
            asked: The sums.
        """
        sizes = tuple(each.shape[1] for each in asked.weights)
        if math.prod(sizes) > MOST_CELLS:
            return None
        found = self._tables.get(asked.columns)
        if found is None:
            counts = np.zeros(math.prod(sizes))
            for codes in self.codes(asked.columns):
                counts += np.bincount(np.ravel_multi_index(codes, sizes), minlength=counts.size)
            found = self._tables[asked.columns] = self.share * counts.reshape(sizes)
        for axis, weights in enumerate(asked.weights):
            found = np.moveaxis(np.tensordot(weights, found, axes=(1, axis)), 0, axis)
        return found


def set_counts_of(bundle: Bundle, schema: Schema) -> SetCounts | None:
    """Return the counts of a release's sets; None if they are not from the tables' posterior.

    Args:
        bundle: The release.
        schema: Its schema as its tables count.
    """
    if bundle.rule != "posterior" or bundle.origin != "modelled" or schema.linked is not None:
        return None

    def codes(names: Clique) -> Iterator[tuple[NDArray[np.integer], ...]]:
        for number in range(1, bundle.claims.sets + 1):
            table = bundle.read_set(number, names)
            yield tuple(
                codes_of(schema.column(name), column.combine_chunks())
                for name, column in zip(names, table.columns, strict=True)
            )

    return SetCounts(codes, bundle.records / sum(bundle.claims.rows))


class Estimates(NamedTuple):
    """Estimates of sums, or of what follows from sums, with their errors; shape (...) each.

    Attributes:
        values: The estimates.
        variance: Variance of their errors: of noise, and of sampling if intervals include it.
        noise: Variance by noise alone.
        quantile: Half-width of an interval in standard errors.
        passed: Part of the tables' noise, as a standard deviation, that they have; 1 without sets.
        weight: Weight of the sets, from 0 (the default) to 1.
    """

    values: Floats
    variance: Floats
    noise: Floats
    quantile: Floats
    passed: Floats = np.ones(())
    weight: Floats = np.zeros(())

    @property
    def half_width(self) -> Floats:
        """Half of the width of their intervals."""
        return np.asarray(self.quantile * np.sqrt(self.variance))


@dataclass(frozen=True, slots=True, eq=False)
class BinCounts:
    """Counts of the sets by bin of a number, in groups.

    Attributes:
        records: Records by bin of each group, shape (..., bins).
        deviations: Standard deviation of the noise of these counts in the tables, same shape.
        whole: Records of all groups by bin, shape (bins,).
        share: Records of the file that a record of all sets stands for.
    """

    records: Floats
    deviations: Floats
    whole: Floats
    share: float

    @property
    def clear(self) -> Floats:
        """The records of the bins that are not mostly noise, shape (..., bins)."""
        return self.records - few_records(self.records, CLEAR * self.deviations)

    def flat(self) -> BinCounts:
        """Return the counts with the groups on one axis."""
        bins = self.whole.size
        records, deviations = (a.reshape(-1, bins) for a in (self.records, self.deviations))
        return BinCounts(records, deviations, self.whole, self.share)

    def with_tables(
        self,
        weights: Floats,
        tables: Estimates,
        own: Floats | None = None,
        few: Floats | None = None,
    ) -> Estimates:
        """Return sums of counts with the weights of bins, from the tables and the sets.

        Args:
            weights: Weights of the bins, shape (..., bins) or (bins,).
            tables: The sums in the tables, shape (...).
            own: What sets tell in place of the sums, to which the weights are changes by a record,
                same shape; the sums by default.
            few: What the bins with few records add to it, same shape; by default their sum.
        """
        values, noise = tables.values, tables.noise
        sums = (weights * self.records).sum(axis=-1)
        own = sums if own is None else own
        noisy = np.square(weights * self.deviations)
        total = np.maximum(noisy.sum(axis=-1), 1e-300)
        passed = (noisy * passed_part(self.records, self.deviations) ** 2).sum(axis=-1) / total
        if few is None:
            few = (weights * (self.records - self.clear)).sum(axis=-1)
        size = max(float(self.whole.sum()), 1e-300)
        drawn = (np.square(weights) * self.records).sum(axis=-1) - np.square(sums) / size
        error = np.square(few) + self.share * drawn
        # The prior is about the distribution in a group, not about the number of its records.
        away = weights - (weights @ self.whole / size)[..., None]
        effect = np.square(away) @ self.whole / size * np.square(self.records.sum(axis=-1))
        known = np.square(away * self.deviations * passed_part(self.whole, self.deviations))
        told = known.sum(axis=-1) * np.minimum(noise / total, 1.0)
        error = error + np.square(told) / np.maximum(effect, 1e-300)
        error = np.maximum(error, np.square(own - values) - _CHANCE**2 * noise)
        rest = noise * (1 - passed)
        part = rest / np.maximum(error + rest, 1e-300)
        weight = np.where(error + rest > 0, part, 0.0)
        # error * rest / (error + rest), also if the error is infinite.
        both = noise * passed + rest * (1 - part)
        return Estimates(
            np.where(weight > 0, values + weight * (own - values), values),
            both + np.maximum(tables.variance - noise, 0.0),
            both,
            tables.quantile,
            np.sqrt(passed),
            weight,
        )
