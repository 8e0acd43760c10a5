"""Multinomial-Dirichlet: records drawn from a private posterior predictive distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dp_core.methods.parametric.drawn_records import TableDraws


@dataclass(frozen=True, slots=True, kw_only=True)
class MultinomialDirichlet(TableDraws):
    """Draw the proportions of all cells from Dirichlet(counts + a), and records from these.

    Abowd & Vilhuber (2008), section 3.2.1 of Bowen & Liu (2020). The prior a = k/(e^epsilon - 1) in
    every cell is the smallest that makes one set of k records private, under both neighbouring
    relations. The records are the release; the proportions, whose release would have no finite
    epsilon, stay hidden. The paper's a uses the whole epsilon for one set; here each of m sets has
    epsilon/m. The prior is not an option: a smaller one is not private, and a larger one spends
    less than the budget. If k is the size of the file, the prior grows with it, so that a larger
    file does not help: for K cells a part of about K/(K + e^epsilon - 1) of the records is
    independent of the file.

    Attributes:
        kind: `urn`: all records of a set have the same hidden proportions.
    """

    kind: ClassVar[Literal["independent", "urn"]] = "urn"


METHOD = MultinomialDirichlet
