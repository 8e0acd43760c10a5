"""The answer of `dp-release compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_core.lab.comparison.comparison_tables import runs_of
from dp_core.lab.comparison.summary import Row
from dp_core.text.pages.answer import Answer


@dataclass(frozen=True, slots=True)
class ComparisonAnswer(Answer):
    """The rows of a comparison, and where its files are.

    Attributes:
        declared_public: Who declared the data public, when and why, as a sentence.
        out: Folder of the tables and plots.
        rows: One row for each method at each epsilon on each file.
        plots: Files of the plots.
        notes: What the figures of linked tables count, and which are left out, by name of the file.
    """

    declared_public: str
    out: Path
    rows: tuple[Row, ...]
    plots: tuple[Path, ...]
    notes: Mapping[str, tuple[str, ...]]

    def to_json(self) -> Any:
        """Return the fields; a row has other names than in Python."""
        return {
            "declared_public": self.declared_public,
            "out": self.out,
            "rows": [_row(row) for row in self.rows],
            "plots": self.plots,
            "notes": self.notes,
        }


def _row(row: Row) -> dict[str, object]:
    return {
        "file": row.cell.file,
        "method": row.cell.label,
        "preset": row.cell.method,
        "epsilon": row.cell.epsilon,
        "delta": row.cell.delta,
        "neighbours": row.cell.neighbours,
        "reference": row.cell.reference,
        "runs": row.runs,
        "outcomes": row.outcomes,
        "refused": runs_of(row) == "refused",
        "figures": {
            name: {"mean": found.mean, "sd": found.deviation, "runs": found.runs}
            for name, found in row.figures.items()
        },
        "sentences": row.sentences,
    }
