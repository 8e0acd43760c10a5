"""How a synthetic file is judged beside the real one.

Everything here looks at the real file, so its figures are as public as that file is declared to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.metrics.cell_error import max_cell_error
from dp_core.metrics.classification import misclassification, svm_accuracy
from dp_core.metrics.marginal_error import TRIPLES, Tally, batches, small_cliques, tvd, within_limit
from dp_core.metrics.range_queries import mean_range_error, random_range_queries
from dp_core.metrics.relative_entropy import relative_entropy
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique
from dp_core.wall.released import Records, Released

JOINT_CELLS = 1 << 22
"""Cells of the whole table up to which relative entropy is computed on it."""
SMOOTHING = 1.0
"""Records spread over a synthetic table before its relative entropy: drawn files have gaps."""
TEST_SHARE = 0.2
"""Records that classifiers are tested on where none are held out from the methods."""
_SPLIT_SEED = 20_261_103


@dataclass(frozen=True, slots=True)
class Task:
    """What classifiers are asked.

    Attributes:
        target: Column to predict.
        nominal: Columns whose codes have no order.
    """

    target: str
    nominal: tuple[str, ...]


def split(data: Dataset, hold_out: float) -> tuple[Dataset, Dataset]:
    """Return the records that methods see, and the real ones that classifiers are tested on.

    The split is the same for every method, epsilon and run.

    Args:
        data: The whole file.
        hold_out: Share of records that no method sees. 0: methods see all, and the test records
            are a fixed fifth of what they saw.
    """
    rest, test = _parted(data, hold_out or TEST_SHARE)
    return (rest if hold_out else data), test


def untested(data: Dataset) -> Dataset:
    """Return the records that classifiers are not tested on, where none are held out.

    What real records teach is judged on others: a resample of the whole file would know the answers
    to most questions of the test.
    """
    return _parted(data, TEST_SHARE)[0]


def seen(rows: int, hold_out: float) -> NDArray[np.int64]:
    """Return the places of the records that methods see; see `split`."""
    return _places(rows, hold_out)[0] if hold_out else np.arange(rows)


def _parted(data: Dataset, share: float) -> tuple[Dataset, Dataset]:
    rest, test = (
        Dataset(data.domain, np.ascontiguousarray(data.codes[:, part]))
        for part in _places(data.rows, share)
    )
    return rest, test


def _places(rows: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.random.default_rng(_SPLIT_SEED).permutation(rows)
    tested = max(1, round(rows * share))
    return np.sort(order[tested:]), np.sort(order[:tested])


def resample(data: Dataset, *, rng: np.random.Generator) -> Dataset:
    """Return as many records, drawn with replacement: what sampling error alone costs."""
    return Dataset(data.domain, np.ascontiguousarray(data.codes[:, drawn_again(data.rows, rng)]))


def drawn_again(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the places of the records that `resample` draws."""
    return rng.integers(0, rows, rows)


def judge(
    real: Dataset,
    synthetic: Dataset,
    *,
    task: Task | None = None,
    test: Dataset | None = None,
    learn: Dataset | None = None,
) -> dict[str, float | None]:
    """Return the figures of one synthetic file; None where one does not apply.

    Args:
        real: Records that the method saw.
        synthetic: Records that it made.
        task: Of the classifiers, None for none.
        test: Real records that they are tested on.
        learn: Records that they learn from, None for the synthetic ones.
    """
    found = _tables(real, synthetic)
    found["kl"] = _joint(real, synthetic)
    queries = random_range_queries(real.domain)
    found["ranges"] = mean_range_error(
        queries.count(real),
        queries.count(synthetic),
        first_rows=real.rows,
        second_rows=synthetic.rows,
    )
    learn = synthetic if learn is None else learn
    if task is not None and test is not None and learn.rows:
        asked = learn, test, task.target
        found["misclassified"] = misclassification(*asked, nominal=task.nominal)
        found["svm"] = svm_accuracy(*asked, nominal=task.nominal)
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def noisy_numbers(released: Sequence[Released]) -> int | None:
    """Return how many noisy numbers a file was made from; None if it was made as records."""
    # Of a sparse table each kept cell has its codes besides its count; the count is what is noisy.
    noisy = [item.values.size for item in released if not isinstance(item, Records)]
    return sum(noisy) if len(noisy) == len(released) else None


def _tables(real: Dataset, synthetic: Dataset) -> dict[str, float]:
    domain = real.domain
    found: dict[str, float] = {}
    for ways in (1, 2, 3):
        wanted: tuple[Clique, ...] = ()
        if ways <= len(domain):
            wanted = small_cliques(domain, ways, most=TRIPLES if ways > 2 else None)
        cliques, _ = within_limit(domain, wanted)
        distances, cells, entropies = [], [], []
        for group in batches(domain, cliques):
            exact, drawn = _tallies(group, real, synthetic)
            for clique in group:
                pair = exact.count(clique), drawn.count(clique)
                distances.append(tvd(*pair))
                if ways == 2:
                    cells.append(max_cell_error(*pair))
                    entropies.append(relative_entropy(*pair, smoothing=SMOOTHING))
        found[f"tvd{ways}"] = _mean(distances)
        if ways == 2:
            found["cell"], found["kl2"] = max(cells, default=math.nan), _mean(entropies)
    return found


def _tallies(cliques: Sequence[Clique], *files: Dataset) -> list[Tally]:
    return [Tally(data.domain, cliques).add(data) for data in files]


def _joint(real: Dataset, synthetic: Dataset) -> float:
    domain = real.domain
    if domain.size() > JOINT_CELLS:
        return math.nan
    exact, drawn = (
        tally.count(domain.columns) for tally in _tallies([domain.columns], real, synthetic)
    )
    return relative_entropy(exact, drawn, smoothing=SMOOTHING)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
