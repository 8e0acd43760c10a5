"""Figures that compare a synthetic file with the real file.

They are computed from the real file and are as public as that file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Records, Released
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.lab.attacks.attack_audit import attack_audit
from dp_core.lab.evaluation.release_scores import COUNTED
from dp_core.lab.field_scores.code_values import CodeValues, records_at
from dp_core.lab.field_scores.file_scores import default_columns, file_scores
from dp_core.lab.measures.classification import misclassification, svm_accuracy
from dp_core.lab.measures.table_errors import (
    KINDS,
    countable,
    full_tables,
    max_cell_error,
    random_range_queries,
    relative_entropy,
    tables_by_kind,
    tables_in_own_units,
)
from dp_core.metrics.marginal_error import TRIPLES, small_cliques, tvd, within_limit

JOINT_CELLS = 1 << 22
"""Largest joint table, in cells, for which relative entropy is computed."""
SMOOTHING = 1.0
"""Records spread over a synthetic table before its relative entropy, because of empty cells."""
TEST_SHARE = 0.2
"""Share of the records on which classifiers are tested if none are held out."""
_SPLIT_SEED = 20_261_103


@dataclass(frozen=True, slots=True)
class Task:
    """Prediction task of the classifiers.

    Attributes:
        target: Column to predict.
        nominal: Columns whose codes have no order.
    """

    target: str
    nominal: tuple[str, ...]


def split(data: Dataset, hold_out: float) -> tuple[Dataset, Dataset]:
    """Return the records that methods see, and the real records that test classifiers.

    The split is the same for every method, epsilon and run.

    Args:
        data: The whole file.
        hold_out: Share of records that no method sees. If 0, methods see all records and the test
            records are a fixed fifth of them.
    """
    rest, test = (records_at(data, part) for part in _places(data.rows, hold_out or TEST_SHARE))
    return (rest if hold_out else data), test


def seen_by_classifiers(data: Dataset) -> Dataset:
    """Return the records on which classifiers are not tested if none are held out.

    Classifiers that learn from real records must learn from these: a resample of the whole file
    would contain most of the test records.
    """
    return split(data, TEST_SHARE)[0]


def seen_records(rows: int, hold_out: float) -> NDArray[np.int64]:
    """Return the indices of the records that methods see; see `split`."""
    return _places(rows, hold_out)[0] if hold_out else np.arange(rows)


def _places(rows: int, share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.random.default_rng(_SPLIT_SEED).permutation(rows)
    tested = max(1, round(rows * share))
    return np.sort(order[tested:]), np.sort(order[:tested])


def judge(
    real: Dataset,
    synthetic: Dataset,
    *,
    task: Task | None = None,
    test: Dataset | None = None,
    learn: Dataset | None = None,
    values: CodeValues | None = None,
    by: Clique = (),
    attacked: bool = False,
    seed: int = 0,
) -> dict[str, float | None]:
    """Return the figures of one synthetic file; None for a figure that does not apply.

    Args:
        real: Records that the method saw.
        synthetic: Records that it made.
        task: Task of the classifiers; None for no classifiers.
        test: Real records on which classifiers are tested.
        learn: Records from which they learn; None for the synthetic records.
        values: The ordered columns and their numbers, for the scores of the field; None (the
            default) for no such scores.
        by: Columns whose subgroups are compared; none by default.
        attacked: Whether attacks are made, with the test records as the control.
        seed: Seed of the attacks; 0 by default.
    """
    found = _tables(real, synthetic)
    found["kl"] = _joint(real, synthetic)
    found["ranges"] = random_range_queries(real.domain).error(real, synthetic)
    if values is not None and real.rows and synthetic.rows:
        found |= _scores(real, synthetic, values, by, found)
        if attacked and test is not None:
            audit = attack_audit(real, test, synthetic, values, seed=seed).headline()
            for name in ("membership", "singling", "linking", "inferring"):
                found[name] = math.nan if (risk := audit[name]) is None else risk
    learn = synthetic if learn is None else learn
    if task is not None and test is not None and learn.rows:
        asked = learn, test, task.target
        found["misclassified"] = misclassification(*asked, nominal=task.nominal)
        found["svm"] = svm_accuracy(*asked, nominal=task.nominal)
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def noisy_numbers(released: Sequence[Released]) -> int | None:
    """Return the number of noisy numbers behind a file; None if records were released directly."""
    # In a sparse table only the counts of the kept cells are noisy numbers, not their codes.
    noisy = [item.values.size for item in released if not isinstance(item, Records)]
    return sum(noisy) if len(noisy) == len(released) else None


def _tables(real: Dataset, synthetic: Dataset) -> dict[str, float]:
    figures: dict[str, Sequence[Clique]] = {}
    for ways in (1, 2, 3):
        wanted = small_cliques(real.domain, ways, most=TRIPLES if ways > 2 else None)
        figures[f"tvd{ways}"], _ = within_limit(real.domain, wanted)
    every = tuple(itertools.chain.from_iterable(figures.values()))
    return _table_figures(figures, full_tables(every, (real, synthetic)))


def _table_figures(
    figures: Mapping[str, Sequence[Clique]], tables: Iterable[tuple[Clique, Sequence[NDArray[Any]]]]
) -> dict[str, float]:
    """Return the mean TVD of the tables of each figure, and what pairs of columns have besides."""
    distances, cells, entropies = {}, [], []
    for clique, pair in tables:
        distances[clique] = tvd(*pair)
        if len(clique) == 2:
            cells.append(max_cell_error(*pair))
            entropies.append(relative_entropy(*pair, smoothing=SMOOTHING))
    found = {
        name: mean_or_nan([distances[each] for each in cliques if each in distances])
        for name, cliques in figures.items()
    }
    return found | {"cell": max(cells, default=math.nan), "kl2": mean_or_nan(entropies)}


def _scores(
    real: Dataset,
    synthetic: Dataset,
    values: CodeValues,
    by: Clique,
    found: Mapping[str, float],
) -> dict[str, float]:
    """Return the scores of the field."""
    asked = replace(default_columns(real.domain), by=by)
    mean_tvd = {ways: found[f"tvd{ways}"] for ways in (2, 3)}
    scores = file_scores(real, synthetic, values, asked=asked, mean_tvd=mean_tvd).headline
    names = {
        "kmarginal": "k_marginal",
        "propensity": "propensity_ratio",
        "correlations": "pearson",
        "components": "components",
        "matched": "unique_matched",
        "subgroups": "subgroups",
        "excess": "subgroup_excess",
    }
    return {
        own: math.nan if (value := scores[name]) is None else value for own, name in names.items()
    }


def _joint(real: Dataset, synthetic: Dataset) -> float:
    domain = real.domain
    if domain.size() > JOINT_CELLS:
        return math.nan
    ((_, pair),) = full_tables([domain.columns], (real, synthetic))
    return relative_entropy(*pair, smoothing=SMOOTHING)


def mean_or_nan(values: Sequence[float]) -> float:
    """Return the mean of some values, NaN if there are none."""
    return math.fsum(values) / len(values) if values else math.nan


FIGURE_OF_KIND = dict(
    zip(KINDS, ("tvd_household", "tvd_person", "tvd_both", "tvd_members", "tvd_size"), strict=True)
)
"""Name of the figure of each kind of tables."""

NOTES = (
    COUNTED,
    "2-way TVD, k-marginal and TVD x cells are left out, because a mean over all pairs would hide"
    " the kinds with few pairs. Each of the four kinds of pairs has its own figure.",
    "Relative is left out, because no method for linked tables treats all columns as independent.",
    "KL joint is left out, because a household with its members is not a cell of one table.",
    "Range error, pMSE ratio, correlation, PCA and exact matches are left out, because they assume"
    " independent records. Members of a household depend on each other.",
)
"""What the figures of linked tables count, which figures they do not have, and why."""


def judge_linked(real: Dataset, synthetic: Dataset) -> dict[str, float | None]:
    """Return the figures of one synthetic pair of files; None for a figure that does not apply.

    Args:
        real: Pair rows of the file that the method saw.
        synthetic: Pair rows that it made, in the same domain.
    """
    domain, linked = real.domain, real.domain.linked
    assert linked is not None
    own = domain.project((*linked.household_columns, *linked.person_columns))
    figures = {FIGURE_OF_KIND[kind]: tables for kind, tables in tables_by_kind(linked).items()}
    figures["tvd1"] = tuple((name,) for name in own.columns)
    figures["tvd3"] = small_cliques(own, 3, most=TRIPLES)
    asked, _ = countable(domain, itertools.chain.from_iterable(figures.values()))
    files = (lambda: [real]), (lambda: [synthetic])
    # Nothing is counted among members if no household has two.
    tables = (each for each in tables_in_own_units(domain, asked, files) if each[1][0].any())
    found = _table_figures(figures, tables)
    return {name: None if math.isnan(value) else value for name, value in found.items()}
