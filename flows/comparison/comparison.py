"""The comparison of methods on public data.

It has three steps, which are tasks in the Prefect flow: `prepare` (specs, data, cells), `run`
(unfinished cells) and `report` (tables and pictures). Nothing is charged. If the home has a ledger,
it records the declaration that the data are public.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source
from dp_core.errors import BadInput, SchemaViolation, StageFailed
from dp_core.lab.attacks.attack_audit import FEWEST
from dp_core.lab.comparison.cells import Cell, CellStore, Result, write_text
from dp_core.lab.comparison.figures import shown_number
from dp_core.schema.definition import Schema
from dp_core.text.pages.answer import CommandAnswer
from flows.answers.comparison_answers import comparison_answer
from flows.comparison.cell_processes import Job, run_cells
from flows.comparison.comparison_layout import RECORDS, Input, Prepared, prepare
from flows.comparison.comparison_request import Request
from flows.processes.child_process import Interrupted

RESULTS, TABLE, PLOTS = "results.csv", "table.md", "plots"
_FEWEST = 20
"""Fewest records on which classifiers are trained and tested."""


class ComparisonProgress:
    """Shows the progress of a comparison as lines; nothing if quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._total = self._done = 0
        self._began = 0.0

    def say(self, words: str) -> None:
        """Show one line."""
        if not self._quiet:
            sys.stderr.write(f"{words}\n")

    def begin(self, cells: int, *, kept: int) -> None:
        """Show how many cells were finished before those that are run."""
        self._total, self._began = cells, time.monotonic()
        if kept:
            self.say(f"{kept} of {cells + kept} runs were finished before and are kept.")

    def show_result(self, cell: Cell, result: Result, seconds: float) -> None:
        """Show the result of a cell, and how long the others will take."""
        self._done += 1
        at = f" epsilon {cell.epsilon}" if cell.epsilon else ""
        words = f"  {self._done}/{self._total} {cell.file}, {cell.label}{at}, run {cell.run}: "
        pairs = result.figures.get("tvd2")
        if result.outcome != "done":
            words += f"{result.outcome}. {result.sentence}"
        else:
            words += f"{seconds:.1f} s"
            words += "" if pairs is None else f", 2-way TVD {shown_number('tvd2', pairs)}"
        minutes = (time.monotonic() - self._began) * (self._total / self._done - 1) / 60
        self.say(f"{words}; about {minutes:.0f} min left" if minutes >= 1 else words)


def compare(request: Request, progress: ComparisonProgress) -> CommandAnswer:
    """Start or resume a comparison; return the content of its tables.

    Raises:
        BadInput: if specs, data or folder are invalid, or no method supports the data.
        StageFailed: if no run finished, or another process uses the folder.
        Interrupted: on Ctrl-C; finished runs are kept and are in the tables.
    """
    try:
        prepared = prepare(request)
    except KeyboardInterrupt:
        raise Interrupted("Interrupted before the first run.") from None
    with lock_folder(prepared.out):
        try:
            run(prepared, progress)
        except KeyboardInterrupt:
            write_tables(prepared)
            raise Interrupted(
                f"Interrupted. Finished runs are kept and are in {prepared.out / TABLE}; repeat the"
                " command to resume."
            ) from None
        finally:
            # The records of a panel name its persons; they are made anew when they are needed.
            shutil.rmtree(prepared.out / RECORDS, ignore_errors=True)
        return report(prepared)


def run(prepared: Prepared, progress: ComparisonProgress) -> None:
    """Run every cell that is not finished.

    Raises:
        SchemaViolation: if the data do not fit their schema.
    """
    for left in [*prepared.store.folder.glob("*.tmp"), *prepared.store.folder.glob("*.stderr")]:
        left.unlink(missing_ok=True)
    todo = [(cell, of) for cell, of in prepared.cells if _to_do(prepared, cell, prepared.store)]
    runnable = sum(cell.refusal is None for cell, _ in prepared.cells)
    for line in _refusals(prepared.cells):
        progress.say(f"Not compared: {line}")
    work = prepared.out / "work"
    try:
        files = {of.name: of for _, of in todo}.values()
        codes = {of.name: _write_codes(of, work, prepared, progress) for of in files}
        for of in files:
            _write_grids(of, codes[of.name], [cell for cell, its in todo if its is of])
        progress.begin(len(todo), kept=runnable - len(todo))
        # All methods of the first run, then of the second, so that an early stop is still useful.
        todo.sort(key=lambda one: one[0].run)
        run_cells(
            [Job(cell, _task(cell, of, codes[of.name], prepared)) for cell, of in todo],
            prepared.store,
            prepared.declaration,
            at_once=prepared.request.jobs,
            limit=prepared.request.limit,
            told=progress.show_result,
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def report(prepared: Prepared) -> CommandAnswer:
    """Write tables and pictures; return their content.

    Raises:
        BadInput: if every method was refused.
        StageFailed: if no run finished.
    """
    from dp_core.lab.comparison.plots import draw_plots
    from dp_core.lab.comparison.summary import summarise

    results = write_tables(prepared)
    rows = summarise(results)
    pictures = draw_plots(rows, prepared.declaration, prepared.out / PLOTS)
    asked = [(cell, result) for cell, result in results if not cell.reference]
    if not any(result is not None and result.outcome == "done" for _, result in asked):
        sentence = next((r.sentence for _, r in asked if r is not None and r.sentence), "")
        refused = all(r is not None and r.outcome == "refused" for _, r in asked)
        kind = BadInput if refused else StageFailed
        raise kind(f"No run of a method finished. The first reason: {sentence}")
    return comparison_answer(
        prepared.declaration.sentence, prepared.out, rows, pictures, _notes(prepared)
    )


def write_tables(prepared: Prepared) -> list[tuple[Cell, Result | None]]:
    """Write `results.csv` and `table.md` of finished runs; return every cell with its result."""
    from dp_core.lab.comparison.summary import as_csv, as_markdown, summarise

    results = [(cell, _result(cell, prepared.store)) for cell, _ in prepared.cells]
    write_text(prepared.out / RESULTS, as_csv(results, prepared.declaration))
    table = as_markdown(
        summarise(results),
        prepared.declaration,
        note=prepared.request.note,
        notes=_notes(prepared),
    )
    write_text(prepared.out / TABLE, table)
    return results


def _notes(prepared: Prepared) -> dict[str, tuple[str, ...]]:
    """Return the notes on the figures of linked tables, by the name of the file."""
    from dp_core.lab.comparison.judging import NOTES

    return {one.name: NOTES for one in prepared.inputs.values() if one.schema.linked is not None}


@contextlib.contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Lock the folder against other processes.

    Raises:
        StageFailed: if another process has locked it.
    """
    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StageFailed(
                f"Another comparison is running in {out}; wait for it, or name another --out."
            ) from None
        yield


def _result(cell: Cell, store: CellStore) -> Result | None:
    if cell.refusal is not None:
        return Result("refused", {}, cell.refusal)
    return store.read(cell)


def _to_do(prepared: Prepared, cell: Cell, store: CellStore) -> bool:
    """Whether a cell must be run: it has no result, failed, or reached a shorter time limit."""
    result = _result(cell, store)
    if result is None or result.outcome == "failed":
        return True
    return result.outcome == "not finished" and (result.limit or 0) < prepared.request.limit


def _refusals(cells: Sequence[tuple[Cell, Input]]) -> list[str]:
    """Return one line for each reason why cells are not compared."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for cell, _ in cells:
        if cell.refusal is not None:
            place = (cell.label, cell.file, cell.refusal)
            found.setdefault(place, {})[cell.epsilon or ""] = None
    return [
        f"{label} on {file} at epsilon {', '.join(epsilons)}. {refusal}"
        for (label, file, refusal), epsilons in found.items()
    ]


def _write_codes(of: Input, work: Path, prepared: Prepared, progress: ComparisonProgress) -> Path:
    """Check a file against its schema and write its codes; return their folder."""
    from dp_core.confidential.coding import write_codes
    from tasks.validation.expectations import validate, validate_linked, write_internal

    progress.say(f"Reading {of.name} and checking it against its schema.")
    checked = prepared.out / "validation" / of.name
    try:
        if isinstance(of.source, LinkedSource):
            validate_linked(of.source, of.schema, checked, lambda _: None, work / of.name)
            shutil.rmtree(prepared.out / "validation", ignore_errors=True)
            return work / of.name
        validate(of.source, of.schema, checked)
        store = write_codes(of.source, of.schema, work / of.name)
        _write_values(of.source, of.schema, work / of.name, prepared.request.formulas)
    except SchemaViolation as error:
        # Only for its owner: the data may be confidential after all.
        write_internal(checked, "message.txt", f"{error.internal or error.message}\n")
        raise SchemaViolation(
            f"{of.name}: {error.message} Details are in {checked}.", internal=error.internal
        ) from None
    shutil.rmtree(prepared.out / "validation", ignore_errors=True)
    held = round(store.rows * prepared.request.hold_out)
    if prepared.request.attacks and min(held, store.rows - held) < FEWEST:
        raise BadInput(
            f"The file {of.name} has {store.rows:,} records; --attacks needs {FEWEST} records that"
            f" no method sees, and {FEWEST} others. Leave out --attacks, or increase --hold-out."
        )
    if prepared.request.target is not None and store.rows < _FEWEST:
        raise BadInput(
            f"The file {of.name} has fewer than {_FEWEST} records, too few to train and test"
            " classifiers; leave out --target."
        )
    return work / of.name


def _write_grids(of: Input, folder: Path, cells: Sequence[Cell]) -> None:
    """Write the codes on each grid that a method uses, beside those of the schema."""
    from dp_core.confidential.coding import write_codes
    from dp_core.plan.reading.spec_file import load_spec
    from flows.comparison.cell_worker import grid_codes

    schemas = {}
    for path in {cell.spec for cell in cells if cell.spec is not None}:
        spec = load_spec(path)
        if spec.schema.coarse is not None:
            schemas[grid_codes(folder, spec)] = spec.schema
    for place, schema in schemas.items():
        assert isinstance(of.source, Source)  # linked tables have no grid
        write_codes(of.source, schema, place)


def _task(cell: Cell, of: Input, codes: Path, prepared: Prepared) -> dict[str, Any]:
    request = prepared.request
    nominal = [column.name for column in of.schema.columns if not column.type.ordered]
    return {
        "codes": str(codes),
        "hold_out": request.held_out,
        "by": list(request.by_columns),
        "attacks": request.attacks,
        "seed": cell.seed,
        "spec": str(cell.spec) if cell.spec else None,
        "target": request.target,
        "nominal": nominal,
        "formulas": list(request.formulas),
        "schema": dict(of.schema.document),
    }


def _write_values(source: Source, schema: Schema, folder: Path, formulas: Sequence[str]) -> None:
    """Write the file's values of the columns in the formulas, in the row order of its codes."""
    if not formulas:
        return
    import pyarrow.parquet as pq

    from dp_core.confidential.original_values import original_values
    from dp_core.inference.formulas.formula import named_columns
    from dp_core.lab.comparison.formula_comparison import VALUES

    names = named_columns(schema, formulas)
    pq.write_table(original_values(source, schema, names), folder / VALUES)
