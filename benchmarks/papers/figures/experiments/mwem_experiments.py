"""MWEM (Hardt, Ligett & McSherry 2012): what Table 1 and Figures 2 and 3 draw."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.papers import mwem
from benchmarks.papers.common import read_categories, records, table_of
from benchmarks.papers.contingency_tables import COLUMNS, contingency_table
from benchmarks.papers.figures.experiment import Context, Experiment, Setting, Values, grid
from dp_core.kernel.counting.dataset import Dataset

SMALL = ("mildew", "rochdale", "czech")


@cache
def data_of(name: str, context: Context) -> Dataset:
    """Return a file of the paper."""
    if name == "nltcs":
        return read_categories(context.file("nltcs.csv"))
    return records(contingency_table(name), COLUMNS[name])


def entropy(context: Context, setting: Setting, repeats: range) -> Values:
    """Return the relative entropy of each run, and of the even table and the model of all pairs."""
    name, order = str(setting["file"]), int(setting.get("order", 0))
    curves = mwem.record_curves(order) if order else mwem.small_curves()
    (curve,) = [each for each in curves if each.name == setting["method"]]
    found = mwem.entropies(curve, data_of(name, context), float(setting["epsilon"]), len(repeats))
    return {"relative entropy": found}


SMALL_FILES = Experiment(
    "mwem-small",
    grid(
        file=SMALL,
        method=tuple(curve.name for curve in mwem.small_curves()),
        epsilon=mwem.EPSILONS,
    ),
    entropy,
    repeats=100,
    published=100,
    block=10,
)
LARGE_FILE = Experiment(
    "mwem-nltcs",
    grid(
        file=("nltcs",),
        order=(2, 3),
        method=tuple(curve.name for curve in mwem.record_curves(2)),
        epsilon=(0.03, *mwem.EPSILONS_OF_RECORDS),
    ),
    entropy,
    repeats=10,
    published=10,
    block=1,
    needs="nltcs.csv",
)


def structure(context: Context, setting: Setting, repeats: range) -> Values:
    """Return records, columns, occupied cells and all cells of a file."""
    table = table_of(data_of(str(setting["file"]), context))
    whole = {
        "records": table.sum(),
        "attributes": table.ndim,
        "non-zero cells": np.count_nonzero(table),
        "cells": table.size,
    }
    return {name: [float(value)] * len(repeats) for name, value in whole.items()}


STRUCTURE = Experiment("mwem-files", grid(file=SMALL), structure, 1, 1, 1)
LARGE_STRUCTURE = Experiment(
    "mwem-files-nltcs", grid(file=("nltcs",)), structure, 1, 1, 1, needs="nltcs.csv"
)
