"""The answer of `dp-release compare`: as many figures as fit; the files have the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dp_core.lab.comparison.cells import BOOTSTRAP
from dp_core.lab.comparison.figures import FIGURE, about_runs, shown_number
from dp_core.lab.comparison.summary import Row, Spread, files, problems, runs_of, shown_figures
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Block, Column, Fact, Listing, Sentence, Title, numbers, texts

_FIRST = (
    "tvd2",
    "tvd_members",
    "tvd_household",
    "tvd_person",
    "tvd_both",
    "cpu",
    "tvd3",
    "misclassified",
    "best",
    "overlap",
    "width",
    "relative",
    "tvd1",
    "memory",
    "ranges",
    "svm",
    "kl2",
    "cell",
    "kl",
    "cost",
)
"""Figures by priority, for a narrow terminal."""


def comparison_answer(
    declared_public: str,
    out: Path,
    rows: Sequence[Row],
    plots: Sequence[Path],
    notes: Mapping[str, Sequence[str]],
) -> CommandAnswer:
    """Return the rows of a comparison, and where its files are.

    Args:
        declared_public: Who declared the data public, when and why, as a sentence.
        out: Folder of the tables and plots.
        rows: One row for each method at each epsilon on each file.
        plots: Files of the plots.
        notes: What the figures of linked tables count, and which are left out, by name of the file.
    """
    values = {
        "declared_public": declared_public,
        "out": out,
        "rows": [_row(row) for row in rows],
        "plots": plots,
        "notes": notes,
    }
    page = (Sentence(declared_public), *_page(rows, notes))
    tables = Fact("Tables", f"{out}/table.md, results.csv", whole=True)
    return CommandAnswer(values, (*page, tables, Fact("Plots", f"{out}/plots", whole=True)))


def _page(rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> Iterator[Block]:
    for file in files(rows):
        yield Title(file)
        own = [row for row in rows if row.cell.file == file]
        yield _table(own)
        yield from map(Sentence, (*problems(own), *notes.get(file, ())))
    most = max((row.done for row in rows), default=0)
    runs = about_runs(most)
    if most > 1 and not any("tvd2" in row.figures for row in rows):
        runs = "The figures are means over the runs; table.md has their standard deviations."
    yield Sentence(
        f"{runs} A dash marks a reference. CPU s excludes start-up. table.md explains each column."
    )


def _table(rows: Sequence[Row]) -> Listing:
    have = shown_figures(rows)
    columns = [
        # The label of a figure is in two lines if it names a kind of pairs.
        Column(
            FIGURE[name].label.replace(" x ", "\nx "),
            is_number=True,
            rank=_FIRST.index(name) + 1 if name in _FIRST else len(_FIRST) + 1,
        )
        for name in have
    ]
    return Listing(
        (*texts("method"), *numbers("epsilon", "runs"), *columns),
        [
            (
                _name(row),
                row.cell.epsilon,
                runs_of(row),
                *(_cell(name, row.figures.get(name)) for name in have),
            )
            for row in rows
        ],
    )


def _name(row: Row) -> str:
    name = "bootstrap (floor)" if row.cell.method == BOOTSTRAP else row.cell.label
    return f"- {name}" if row.cell.reference else name


def _cell(name: str, found: Spread | None) -> str:
    if found is None:
        return ""
    text = shown_number(name, found.mean)
    if name != "tvd2" or found.deviation is None:
        return text
    return f"{text} ±{shown_number(name, found.deviation)}"


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
