"""Synthetic sets of parametric methods: the library's own method, curator and exact noise.

A simulation of thousands of repeats needs no plan, ledger database or bundle. The steps that cost
privacy are the same as in a release: the method asks the curator, the session refuses what is not
paid for, and noise is drawn by the exact samplers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Neighbours
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.synthesizer import Synthesizer
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variables

ZEROS = StructuralZeros()


def single_set(
    method: Synthesizer,
    variables: Variables,
    counter: Counter,
    *,
    epsilon: float | Fraction,
    rows: int,
    rng: np.random.Generator,
    neighbours: Neighbours = "add-remove",
) -> Dataset:
    """Return one set of the file's size, released at its own epsilon in pure differential privacy.

    Args:
        method: A parametric method.
        variables: All columns.
        counter: Counter of the file; it may be used for many sets.
        epsilon: Epsilon of this set alone.
        rows: Number of records, which the papers treat as public under both relations.
        rng: Generator for the records drawn from released results; the noise takes no seed.
        neighbours: Neighbouring relation of the guarantee.
    """
    cost = Fraction(epsilon)
    curator = known_rows(variables.domain, counter, cost, rows, neighbours)
    asked = method.measure(
        MethodInputs(
            curator=curator,
            domain=variables.domain,
            measure_cost=cost,
            stated_rows=rows,
            zeros=ZEROS,
            rng=rng,
        ),
        variables,
    )
    return method.model_of(variables, FitInputs(variables.domain, asked, rows, ZEROS)).sample(
        rows, rng=rng
    )


def known_rows(
    domain: Domain,
    counter: Counter,
    epsilon: Fraction,
    rows: int,
    neighbours: Neighbours = "add-remove",
) -> Curator:
    """Return the curator of a file whose number of records is public, as the papers have it.

    Args:
        domain: All columns.
        counter: Counter of the file.
        epsilon: Total epsilon that it may spend.
        rows: Number of records.
        neighbours: Neighbouring relation of the guarantee.
    """

    class KnownRows(Curator):
        def public_rows(self) -> int | None:
            return rows

    session = MemorySession(Currency("pure", epsilon), neighbours)
    return KnownRows(Kernel(domain, counter, session))
