"""The rows of a comparison, mean and spread of the runs, and its tables by run and by method."""

from __future__ import annotations

import csv
import io
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dp_core.lab.comparison.cells import (
    BOOTSTRAP,
    OUTCOMES,
    PLAIN,
    Cell,
    Declaration,
    Result,
    RunOutcome,
)
from dp_core.lab.comparison.figures import FIGURE, FIGURES, about_runs, figure_name, shown_number
from dp_core.lab.measures.inference_agreement import Outcome
from dp_core.text.documents.spreadsheet_text import spreadsheet_comment, spreadsheet_text


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and spread of one figure over several runs.

    Attributes:
        mean: Mean of the runs.
        deviation: Sample standard deviation; None for one run.
        runs: Number of runs.
    """

    mean: float
    deviation: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one epsilon on one file.

    Attributes:
        cell: The first of its runs; the others differ in number and seed only.
        figures: Figures by name, without those that no run has.
        runs: Number of requested runs.
        outcomes: Number of runs with each outcome.
        sentences: Why some runs have no figures, each reason once.
    """

    cell: Cell
    figures: Mapping[str, Spread]
    runs: int
    outcomes: Mapping[RunOutcome, int]
    sentences: tuple[str, ...]

    @property
    def done(self) -> int:
        """Number of runs that have figures."""
        return self.outcomes.get("done", 0)


def spread(values: Sequence[float]) -> Spread:
    """Return mean and sample standard deviation of at least one value.

    >>> spread([1.0, 3.0])
    Spread(mean=2.0, deviation=1.4142135623730951, runs=2)
    """
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.fmean(values), deviation, len(values))


def summarise(results: Sequence[tuple[Cell, Result | None]]) -> tuple[Row, ...]:
    """Return one row for each method and epsilon, in the order of the cells.

    Args:
        results: Every cell with its result; None if it has not been run.
    """
    groups: dict[tuple[object, ...], list[tuple[Cell, Result | None]]] = {}
    for cell, result in results:
        place = (cell.file, cell.label, cell.epsilon, cell.delta, cell.neighbours)
        groups.setdefault(place, []).append((cell, result))
    return _with_relative([_row(group) for group in groups.values()])


def files(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the names of the files, in the order of the rows."""
    return tuple(dict.fromkeys(row.cell.file for row in rows))


def shown_figures(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the names of the figures that some row has, in the order of the table."""
    return tuple(
        figure.name for figure in FIGURES if any(figure.name in row.figures for row in rows)
    )


def _row(group: Sequence[tuple[Cell, Result | None]]) -> Row:
    known = [result for _, result in group if result is not None]
    outcomes = Counter(result.outcome for result in known)
    values: dict[str, list[float]] = {}
    for result in known:
        for name, value in result.figures.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return Row(
        cell=group[0][0],
        figures={name: spread(found) for name, found in values.items()},
        runs=len(group),
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES if outcome in outcomes},
        sentences=tuple(dict.fromkeys(one.sentence for one in known if one.sentence)),
    )


def _with_relative(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Add the relative error: 0 for the bootstrap of the file, 1 for `independent`."""
    floors = {
        row.cell.file: row.figures.get("tvd2") for row in rows if row.cell.method == BOOTSTRAP
    }
    plain = {_guarantee(row): row.figures.get("tvd2") for row in rows if row.cell.method == PLAIN}
    found = []
    for row in rows:
        floor, baseline = floors.get(row.cell.file), plain.get(_guarantee(row))
        own = row.figures.get("tvd2")
        if floor and baseline and own and baseline.mean > floor.mean:
            width = baseline.mean - floor.mean
            deviation = None if own.deviation is None else own.deviation / width
            relative = Spread((own.mean - floor.mean) / width, deviation, own.runs)
            row = replace(row, figures={**row.figures, "relative": relative})
        found.append(row)
    return tuple(found)


def _guarantee(row: Row) -> tuple[str | None, ...]:
    return row.cell.file, row.cell.epsilon, row.cell.delta, row.cell.neighbours


_HEAD = ("file", "method", "preset", "epsilon", "delta", "neighbours", "run", "seed")
_MORE = ("rows", "numbers")
_OUTCOMES = tuple(figure_name(kind) for kind in Outcome)


def as_csv(results: Sequence[tuple[Cell, Result | None]], declaration: Declaration) -> str:
    """Return one line for each run, below the declaration and the names of the columns.

    The first line begins with `#`: `pandas.read_csv(..., comment="#")` and `read.csv(...,
    comment.char = "#")` skip it. `relative` is a figure of rows, not of runs, and is left out.
    An apostrophe stands before a text that a spreadsheet would run as a formula.
    """
    names = [figure.name for figure in FIGURES if figure.name != "relative"]
    text = io.StringIO()
    text.write(f"{spreadsheet_comment(declaration.sentence)}\n")
    writer = csv.writer(text, lineterminator="\n")
    asked = any(name in result.figures for _, result in results if result for name in _OUTCOMES)
    names += _OUTCOMES if asked else ()
    writer.writerow([*_HEAD, "outcome", *names, *_MORE, "sentence"])
    for cell, result in results:
        head = cell.head()
        found = result.figures if result else {}
        writer.writerow(
            [
                # None is written as an empty text.
                *(spreadsheet_text(v) if isinstance(v := head[n], str) else v for n in _HEAD),
                result.outcome if result else "open",
                *("" if found.get(name) is None else repr(found[name]) for name in names),
                *("" if found.get(name) is None else int(found[name] or 0) for name in _MORE),
                # Another `#` would also start a comment.
                spreadsheet_text((result.sentence if result else "").replace("#", "no.")),
            ]
        )
    return text.getvalue()


def as_markdown(
    rows: Sequence[Row],
    declaration: Declaration,
    *,
    note: str = "",
    notes: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the table of every file, with the failures and the meaning of the columns.

    Args:
        rows: Rows of the comparison.
        declaration: Declaration in the first line.
        note: A sentence about the whole comparison; empty for none.
        notes: Sentences about each file, by its name; None (the default) for none.
    """
    lines = [_escape_cell(declaration.sentence), "", "# Comparison of methods", ""]
    lines += [_escape_cell(note), ""] if note else []
    names = shown_figures(rows)
    for file in files(rows):
        mine = [row for row in rows if row.cell.file == file]
        lines += [f"## {_escape_cell(file)}", "", _guarantee_words(mine), ""]
        shown = [name for name in names if any(name in row.figures for row in mine)]
        header = ["method", "epsilon", "runs", *(FIGURE[name].label for name in shown)]
        lines += [
            "| " + " | ".join(header) + " |",
            "|---" + "|---:" * (len(header) - 1) + "|",
        ]
        for row in mine:
            cells = [_escape_cell(name_of(row)), row.cell.epsilon or "", runs_of(row)]
            cells += [_with_deviation(name, row.figures.get(name)) for name in shown]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
        sentences = [*problems(mine), *(notes or {}).get(file, ())]
        lines += [f"- {_escape_cell(sentence)}" for sentence in sentences]
        if sentences:
            lines.append("")
    lines += [
        f"{about_runs(max((row.done for row in rows), default=0))} Rows in *italics* are"
        " references.",
        "",
    ]
    lines += [f"- **{FIGURE[name].label}**: {FIGURE[name].meaning}." for name in names]
    return "\n".join(lines) + "\n"


def name_of(row: Row) -> str:
    """Return the name of a row's method; references are in italics."""
    return f"*{row.cell.label}*" if row.cell.reference else row.cell.label


def runs_of(row: Row) -> str:
    """Return the number of runs with figures, or "refused"."""
    refused = row.outcomes.get("refused", 0) == row.runs
    return "refused" if refused else f"{row.done}/{row.runs}"


def problems(rows: Sequence[Row]) -> list[str]:
    """Return for each reason a sentence that says why runs have no figures."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for sentence in row.sentences:
            found.setdefault((row.cell.label, sentence), []).append(row.cell.epsilon or "")
    lines = []
    for (label, sentence), epsilons in found.items():
        at = f" at epsilon {', '.join(epsilons)}" if any(epsilons) else ""
        lines.append(f"{label}{at}: {sentence}")
    return lines


def _with_deviation(name: str, found: Spread | None) -> str:
    if found is None:
        return ""
    text = shown_number(name, found.mean)
    return text if found.deviation is None else f"{text} ± {shown_number(name, found.deviation)}"


def _guarantee_words(rows: Sequence[Row]) -> str:
    guarantees = {
        (row.cell.delta, row.cell.neighbours) for row in rows if row.cell.delta is not None
    }
    if len(guarantees) != 1:
        return "The rows differ in delta or neighbouring relation; see `results.csv`."
    ((delta, neighbours),) = guarantees
    return f"delta {float(delta or 0):g}, {neighbours}"


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
