"""Regressions on the sets beside those on the confidential file: for staff only."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np
from prefect.exceptions import ExternalSignal, PrefectSignal

from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.analysis.comparison.inference_page import Comparison
    from dp_core.confidential.source import Source
    from dp_core.inference.combine import Rule
    from dp_core.metrics.inference_agreement import Agreement
    from dp_core.schema.definition import Schema

NAME = "inference"
"""Of the files in the internal folder."""

_FROM_OUTSIDE = (KeyboardInterrupt, asyncio.CancelledError, ExternalSignal, PrefectSignal)
"""What somebody else stops a run with; data cannot."""

_UNHEARD = threading.Lock()


def write_comparison(
    folder: Path,
    source: Source,
    schema: Schema,
    files: Sequence[Path],
    formulas: Sequence[str],
    *,
    rule: Rule,
    name: str = NAME,
) -> Path:
    """Write the analyses of the confidential file beside those of the sets; return the page.

    A page, its picture and its numbers, readable by the owner only.

    Args:
        folder: Internal.
        source: The confidential files.
        schema: Of the release.
        files: Of the synthetic sets.
        formulas: As people write them.
        rule: By which the sets are combined.
        name: Of the three files, without their endings.

    Privacy:
        Whether a regression has a solution may hang on one record. So whatever the file holds, the
        same files are written, nothing is said, and nothing is raised.
    """
    from dp_core.analysis.comparison.formula_comparison import analyse, compare_formulas
    from dp_core.confidential.original_values import original_values
    from dp_core.inference.formulas.comparable_formula import mentioned
    from dp_core.metrics.inference_agreement import Agreement

    columns = mentioned(schema, formulas)
    sets = [_table(path, columns) for path in files]

    def stopped(reason: str) -> list[Agreement]:
        return [Agreement(formula, problem=reason) for formula in formulas]

    # privacy: made before the file is looked at, so that there is something to write whatever
    # follows; and what a drawing says or loads for the first time, it does here.
    nothing = _comparison(schema, rule, stopped("The comparison stopped before its end."))
    written = _texts(nothing, name) | _picture(nothing, name)
    with _unheard():
        try:
            real = original_values(source, schema, columns)
            agreements = compare_formulas(real, sets, formulas, schema, rule, analyse=analyse)
            found = _comparison(schema, rule, agreements)
            written = _texts(found, name) | _picture(found, name)
        except _FROM_OUTSIDE:
            raise
        except BaseException as error:  # privacy: what the data can raise, stops nothing.
            reason = f"The comparison stopped with {type(error).__name__}."
            written |= _texts(_comparison(schema, rule, stopped(reason)), name)
    for file, content in written.items():
        write_atomically(folder / file, content)
    return folder / f"{name}.html"


def _comparison(schema: Schema, rule: Rule, agreements: Sequence[Agreement]) -> Comparison:
    from dp_core.analysis.comparison.inference_page import Comparison
    from dp_core.inference.combining_rules import WORDING

    words = f"by the rule {rule}, {WORDING[rule].variance} ({WORDING[rule].in_words})"
    if rule == "shared":
        words += ", which misses the noise of the measurement: the sets' intervals are too narrow"
    return Comparison(INTERNAL_NOTICE, schema.title, words, tuple(agreements))


def _texts(found: Comparison, name: str) -> dict[str, bytes]:
    from dp_core.analysis.comparison.inference_page import as_html, as_json

    page = as_html(found, picture=f"{name}.png")
    return {f"{name}.json": as_json(found).encode(), f"{name}.html": page.encode()}


def _picture(found: Comparison, name: str) -> dict[str, bytes]:
    """Return the stacked bars: one for each formula, also where nothing was compared."""
    from dp_core.analysis.comparison.significance_plot import Bar, Panel, significance_png
    from dp_core.metrics.significance import shares

    bars = tuple(
        Bar(one.formula, shares(one.outcomes) if one.outcomes else {}) for one in found.agreements
    )
    drawn = significance_png(
        [Panel("", bars)],
        title=f"{found.title}: sign and significance of the coefficients of each formula",
        notice=found.notice,
        axis="formula",
    )
    return {f"{name}.png": drawn}


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Let nothing be printed: no warning, and nothing that LAPACK writes past Python.

    privacy: such a line appears for some files and not for others. What another thread prints
    meanwhile is lost too.
    """
    # One at a time: the second would take the first one's silence for what is to be restored.
    with _UNHEARD, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
        _flush(streams)
        kept = [(number, os.dup(number)) for number in (1, 2) if _is_open(number)]
        # Python's own streams too: whoever replaced them may write elsewhere than to 1 and 2.
        with (
            Path(os.devnull).open("w", encoding="utf-8") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            try:
                for number, _ in kept:
                    os.dup2(nowhere.fileno(), number)
                yield
            finally:
                _flush(streams)
                for number, own in kept:
                    os.dup2(own, number)
                    os.close(own)


def _flush(streams: Sequence[TextIO]) -> None:
    for stream in streams:
        stream.flush()
    # What a C library printed may wait in a buffer of its own where 1 is no terminal.
    ctypes.CDLL(None).fflush(None)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _table(path: Path, columns: Sequence[str]) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=list(columns))
