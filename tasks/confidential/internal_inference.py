"""Compares the sets with the confidential file, by regressions and scores. For staff only."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import numpy as np

from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.client.released import Released
    from dp_core.confidential.code_store import CodeStore
    from dp_core.confidential.source import Source
    from dp_core.inference.combine import Rule
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.lab.comparison.inference_page import Comparison
    from dp_core.lab.measures.inference_agreement import Agreement
    from dp_core.schema.definition import Schema

NAME = "inference"
"""Name of the files in the internal folder, without their suffixes."""

FROM_OUTSIDE = (KeyboardInterrupt, asyncio.CancelledError)
"""Exceptions by which a person or a runner stops the work; the data cannot cause them."""

_UNHEARD = threading.Lock()
Result = TypeVar("Result")


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
    """Write a comparison of regressions on the confidential file with those on the sets.

    It writes an HTML page, a picture (PNG) and the numbers (JSON), which only the owner can read.

    Args:
        folder: Internal folder of the run.
        source: The confidential files.
        schema: Schema of the release.
        files: Paths of the synthetic sets.
        formulas: Regression formulas of the spec.
        rule: Combining rule of the sets.
        name: Name of the three files, without suffix; `inference` by default.

    Returns:
        The path of the page.

    Privacy:
        Whether a regression has a solution can depend on one record. So the same files are written
        whatever the data are, nothing is printed, and no error is raised because of them.
    """
    from dp_core.confidential.original_values import original_values
    from dp_core.inference.formulas.formula import named_columns
    from dp_core.lab.comparison.formula_comparison import analyse, compare_formulas
    from dp_core.lab.measures.inference_agreement import Agreement

    columns = named_columns(schema, formulas)
    sets = [_table(path, columns) for path in files]

    def stop(reason: str) -> list[Agreement]:
        return [Agreement(formula, problem=reason) for formula in formulas]

    # privacy: make empty results before the file is read, so that the same files can always be
    # written. Messages and imports of the first drawing also happen here.
    nothing = _comparison(schema, rule, stop("The comparison stopped before its end."))
    written = _texts(nothing, name) | _picture(nothing, name)

    def compare() -> dict[str, bytes]:
        real = original_values(source, schema, columns)
        agreements = compare_formulas(real, sets, formulas, schema, rule, analyse=analyse)
        found = _comparison(schema, rule, agreements)
        return _texts(found, name) | _picture(found, name)

    def not_compared(error: str) -> dict[str, bytes]:
        reason = f"The comparison stopped with {error}."
        return _texts(_comparison(schema, rule, stop(reason)), name)

    with unheard():
        written |= result_or(compare, not_compared)
    for file, content in written.items():
        write_atomically(folder / file, content)
    return folder / f"{name}.html"


def _comparison(schema: Schema, rule: Rule, agreements: Sequence[Agreement]) -> Comparison:
    from dp_core.inference.combining_rules import WORDING
    from dp_core.lab.comparison.inference_page import Comparison

    words = f"by the rule {rule}, {WORDING[rule].variance} ({WORDING[rule].in_words})"
    if rule == "shared":
        words += ", which misses the noise of the measurement: the sets' intervals are too narrow"
    return Comparison(INTERNAL_NOTICE, schema.title, words, tuple(agreements))


def _texts(found: Comparison, name: str) -> dict[str, bytes]:
    from dp_core.lab.comparison.inference_page import as_html, as_json

    page = as_html(found, picture=f"{name}.png")
    return {f"{name}.json": as_json(found).encode(), f"{name}.html": page.encode()}


def _picture(found: Comparison, name: str) -> dict[str, bytes]:
    """Return a picture with one stacked bar for each formula, empty if it was not compared."""
    from dp_core.lab.comparison.plots import Bar, Panel, significance_png
    from dp_core.lab.measures.inference_agreement import shares

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


def result_or(work: Callable[[], Result], otherwise: Callable[[str], Result]) -> Result:
    """Return the result of work on the data; if it fails, the other with the error's class name.

    Privacy:
        Whether the work fails may depend on one record, so no error of it leaves.
    """
    try:
        return work()
    except FROM_OUTSIDE:
        raise
    except BaseException as error:
        return otherwise(type(error).__name__)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Suppress all output: warnings, and messages that LAPACK writes without Python.

    For what is computed from the data. The output of other threads is suppressed too.

    Privacy:
        Such messages appear for some files and not for others.
    """
    # Only one thread at a time: a second would save the suppressed streams and restore those.
    with _UNHEARD, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
        _flush(streams)
        kept = [(number, os.dup(number)) for number in (1, 2) if _is_open(number)]
        # Redirect Python's streams too: once replaced, they may not use descriptors 1 or 2.
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
    # A C library buffers its output if descriptor 1 is not a terminal.
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


_SEED = 20_261_128


def scores_or_reason(
    file: CodeStore,
    sets: Sequence[CodeStore],
    schema: Schema,
    released: Sequence[Released],
    *,
    records: float,
    rows: float | None,
    mean_tvd: Sequence[Mapping[int, float]] | None = None,
) -> dict[str, object]:
    """Return the scores of the sets, for the internal folder. CONFIDENTIAL.

    Args:
        file: Codes of the confidential file, in those of `schema`.
        sets: Codes of each set.
        schema: Schema of these codes; on a grid, scores are in its own bins.
        released: Everything that was measured.
        records: Public or estimated number of records.
        rows: Number of records if it is public, otherwise None.
        mean_tvd: For each set its average TVD by number of columns, if it is known already.

    Returns:
        The scores; without sets nothing; if they cannot be computed, the reason under `problem`.

    Privacy:
        Whether a score can be computed may depend on one record. So nothing is printed, and no
        error is raised because of the data.
    """
    from dp_core.lab.evaluation.release_scores import expected_noise, score_sets
    from dp_core.lab.field_scores.file_scores import default_columns

    if not sets:
        return {}

    def scores() -> dict[str, object]:
        own = schema.coarse or schema
        chosen = default_columns(own.domain)
        noise = expected_noise(own, released, chosen.by, records=records, rows=rows)
        real, *drawn = (read_sample(store, schema) for store in (file, *sets))
        return score_sets(real, drawn, own, asked=chosen, noise=noise, mean_tvd=mean_tvd)

    with unheard():
        return result_or(scores, lambda error: {"problem": f"The scores stopped with {error}."})


def read_sample(
    store: CodeStore, schema: Schema, *, most: int | None = None, coarse: bool = True
) -> Dataset:
    """Return a simple random sample of a store's records, with a fixed seed. CONFIDENTIAL.

    Args:
        store: A code store.
        schema: Schema of its codes.
        most: Largest number of records; as many as scores use by default.
        coarse: Whether codes on a grid become those of the schema's own bins; they do by default.
    """
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.lab.field_scores.file_scores import MOST_RECORDS
    from dp_core.schema.grid import Coarsening

    number = min(store.rows, MOST_RECORDS if most is None else most)
    places = np.sort(np.random.default_rng(_SEED).choice(store.rows, number, replace=False))
    pieces, start = [], 0
    for chunk in range(store.chunks):
        columns = store.read(chunk)
        rows = len(columns[0]) if columns else 0
        inside = places[(places >= start) & (places < start + rows)] - start
        # Only the pages that hold these records are read.
        own = [column[inside] for column in columns]
        pieces.append(np.stack(own, dtype=store.domain.code_type))
        start += rows
    codes = np.ascontiguousarray(np.concatenate(pieces, axis=1))
    data = Dataset(schema.domain, codes)
    return data if schema.coarse is None or not coarse else Coarsening(schema).dataset(data)
