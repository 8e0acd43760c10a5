"""Two cells of a known total: measured as one number, at half the variance of Laplace noise.

If the number of records is public (replace-one neighbours), the counts of a column of two levels
are one number and not two: a replaced record moves their half difference by 1, and the table of
both by 2 in L1. So noise of scale 1/epsilon on one count is enough. The table has scale 2/epsilon
on both counts, and the mean of the two has twice the variance. Bowen and Liu (2020, simulation 1)
use the one count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.client.interactions import implied_table
from dp_core.client.released import Released, Totals
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.schema.variables import Variables

if TYPE_CHECKING:
    from dp_core.client.curator import Curator


def difference(curator: Curator, variables: Variables) -> Interaction | None:
    """Return the question for the difference of the two counts; None if it does not determine them.

    It does if there is one column, of two levels, and the number of records is public.
    """
    only = variables.domain.sizes == (2,) and not variables.numeric
    if not only or curator.public_rows() is None:
        return None
    return Interaction(variables.domain.columns, (2,))


def counts_of(released: Sequence[Released], rows: int | None) -> NDArray[np.float64] | None:
    """Return both counts, shape (2,), possibly negative; None if the difference was not asked.

    Args:
        released: Results of a method's `measure`.
        rows: Number of records; public whenever the difference was asked.
    """
    for item in released:
        if isinstance(item, Totals) and isinstance(item.of, Interaction):
            assert rows is not None
            return rows / 2 + implied_table(item.of, item.values)
    return None
