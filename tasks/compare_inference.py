"""Regressions on the sets beside those on the confidential file: for staff only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.run import Run
from tasks.stores.artifacts import INTERNAL_NOTICE, write_atomically
from tasks.synthesize import synthetic_file

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.comparison.inference_page import Comparison
    from dp_core.inference.combine import Rule
    from dp_core.schema import Schema
    from dp_core.source import Source

NAME = "inference"
"""Of the files in the internal folder."""


def compare_inference(run: Run) -> None:
    """Write how the spec's formulas come out on the sets and on the file, if it names any."""
    if not run.spec.formulas:
        return
    from dp_core.inference.rules import rule_of

    files = [synthetic_file(run, number) for number in range(1, run.spec.sets + 1)]
    rule = rule_of(run.spec.mode, run.spec.sets)
    found = comparison(run.source, run.spec.schema, files, run.spec.formulas, rule=rule)
    write_comparison(run.folder.internal, found)


def comparison(
    source: Source, schema: Schema, files: Sequence[Path], formulas: Sequence[str], *, rule: Rule
) -> Comparison:
    """Return the analyses of the confidential file beside those of the sets. CONFIDENTIAL.

    Args:
        source: The confidential files.
        schema: Of the release.
        files: Of the synthetic sets.
        formulas: As people write them.
        rule: By which the sets are combined.
    """
    from dp_core.comparison.formulas import analyse, compare_formulas, mentioned
    from dp_core.comparison.inference_page import Comparison
    from dp_core.inference.rules import WORDING
    from dp_core.own_values import own_values

    columns = mentioned(schema, formulas)
    agreements = compare_formulas(
        own_values(source, schema, columns),
        [_table(path, columns) for path in files],
        formulas,
        schema,
        rule,
        analyse=analyse,
    )
    words = f"by the rule {rule}, {WORDING[rule].variance} ({WORDING[rule].in_words})"
    if rule == "shared":
        words += ", which misses the noise of the measurement: the sets' intervals are too narrow"
    return Comparison(INTERNAL_NOTICE, schema.title, words, agreements)


def write_comparison(folder: Path, found: Comparison, name: str = NAME) -> tuple[Path, ...]:
    """Write a page, its picture and its numbers, readable by the owner only; return where."""
    from dp_core.comparison.inference_page import as_html, as_json
    from dp_core.comparison.significance_plot import Bar, Panel, significance_png
    from dp_core.metrics.significance import shares

    bars = tuple(Bar(one.formula, shares(one.outcomes)) for one in found.agreements if one.outcomes)
    files = {f"{name}.json": as_json(found).encode()}
    picture = ""
    if bars:
        picture = f"{name}.png"
        files[picture] = significance_png(
            [Panel("", bars)],
            title=f"{found.title}: sign and significance of the coefficients of each formula",
            notice=found.notice,
            axis="formula",
        )
    files[f"{name}.html"] = as_html(found, picture=picture).encode()
    for file, content in files.items():
        write_atomically(folder / file, content)
    return tuple(folder / file for file in files)


def _table(path: Path, columns: Sequence[str]) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=list(columns))
