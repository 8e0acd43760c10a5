"""Questions that one historical method needs, each with its own proof.

The other questions are the core. A release asks an extension only if the document that the ledger
reserves names it, and the core loads its file only then. An account may refuse every plan that
needs one (`ledger open --core-questions-only`), and the statement names those that were asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS = "sparse-table", "drawn-records", "drawn-cells"
"""Questions whose mechanism does more than add noise."""

DRAWN = frozenset({SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS})
DRAWN_BY: Mapping[str, frozenset[str]] = {
    "stability-histogram": frozenset({SPARSE_TABLE}),
    "perturbed-draws": frozenset({DRAWN_RECORDS, DRAWN_CELLS}),
    "polya-urn": frozenset({DRAWN_CELLS}),
}
"""The questions that each of these mechanisms answers; the others answer all but these."""

EXTENSIONS: Mapping[str, tuple[str, str]] = {
    "class-minimiser": ("minimisers", "ClassMinimiser"),
    "cosine-tails": ("cosine_tails", "CosineTails"),
    "cut-deviations": ("cuts", "CutDeviations"),
    DRAWN_CELLS: ("cell_draws", "CellDraws"),
    DRAWN_RECORDS: ("column_draws", "ColumnDraws"),
    "f-score": ("f_score", "FScore"),
    "indif": ("indif", "InDif"),
    "mutual-information": ("mutual_information", "MutualInformation"),
    "quantile": ("quantile", "Quantile"),
    "r-score": ("indif", "RScore"),
    SPARSE_TABLE: ("thresholds", "ThresholdTable"),
}
"""File and class of each extension, by the `name` of its question in a receipt."""

SUMS = frozenset({"class-minimiser"})
"""Extensions that are sums over records."""


def extension(name: str) -> Any:
    """Return the class of an extension's question; its file is loaded now.

    Raises:
        LookupError: if no extension has this name.
    """
    module, kind = EXTENSIONS[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), kind)
