"""What a schema states about the sample design, besides the roles of columns: its key `survey`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

ReplicateMethod = Literal["jk1", "jkn", "brr", "bootstrap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicates:
    """A public rule that makes replicate weights from strata and clusters.

    Attributes:
        method: `jk1` (jackknife without strata), `jkn` (stratified jackknife), `brr` (balanced
            half samples) or `bootstrap` (Rao and Wu 1988).
        number: Number of replicates.
        fay: Fay's coefficient: `brr` multiplies the weights of a half sample by `2 - fay` and the
            others by `fay`. From 0 (the default) to below 1.
    """

    method: ReplicateMethod
    number: int
    fay: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The sample design; all of it is public and optional.

    Attributes:
        nested: Whether codes of clusters are counted within strata, so that the same code in two
            strata is two clusters.
        strata: Number of strata in the file, if no column of the release states them.
        clusters: Number of clusters in the file, if no column of the release states them.
        replicates: Rule for replicate weights; None for variances by linearization.
        design_effect: Factor by which the design increases a variance over that of a simple random
            sample, from the documentation of the survey; None if it is not stated.
        replicate_weights: Columns of the file that hold its own replicate weights; they are neither
            read nor released.
    """

    nested: bool = False
    strata: int | None = None
    clusters: int | None = None
    replicates: Replicates | None = None
    design_effect: Fraction | None = None
    replicate_weights: tuple[str, ...] = ()

    @property
    def states_design(self) -> bool:
        """Whether standard errors can follow from it, without any column with a role."""
        stated = (self.strata, self.clusters, self.replicates, self.design_effect)
        return any(each is not None for each in stated)


NO_SURVEY = Survey()
"""The design of a schema without the key `survey`."""
