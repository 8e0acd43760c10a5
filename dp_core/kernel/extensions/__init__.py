"""Questions that one historical method needs, each with its own proof, one file each.

The other questions are the core. A release asks an extension only if the document that the ledger
reserves names it. An account may refuse every plan that needs one (`ledger open
--core-questions-only`), and the statement names those that were asked.
"""

from __future__ import annotations

from collections.abc import Mapping

SPARSE_TABLE, DRAWN_RECORDS, DRAWN_CELLS = "sparse-table", "drawn-records", "drawn-cells"
"""Questions whose mechanism does more than add noise."""

EXTENSIONS: Mapping[str, str] = {
    "class-minimiser": "exact minimum of a perturbed objective",
    "cosine-tails": "distances of a histogram from its first cosines",
    DRAWN_CELLS: "records drawn by counts",
    DRAWN_RECORDS: "records drawn column by column",
    "f-score": "PrivBayes' score F",
    "indif": "distances of pairs from independence",
    "mutual-information": "mutual information of columns",
    "r-score": "PrivBayes' score R",
    SPARSE_TABLE: "table of the cells above a threshold",
}
"""What each extension asks, by the `name` of the question in a receipt."""
