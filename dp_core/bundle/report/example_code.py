"""Example code for the report, with the columns and the combining rule of the release."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.bundle.files.labelled_file import level_numbers, valid_names
from dp_core.bundle.published import Published
from dp_core.bundle.quality.table_fit import margin_of
from dp_core.client.released import Measurement, tables_of
from dp_core.inference.combine import Rule
from dp_core.inference.combining_rules import rule_of
from dp_core.inference.formulas.formula import written_name
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.definition import Column
from dp_core.tables.cliques import shares_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.environment import TemplateModule

SIZES_DIFFER = 0.05
"""Relative difference between the sizes of set and file above which W is corrected."""
LARGEST_FACTOR_LEVEL = 32_740
"""Largest number of a level that `i.` of Stata takes; it takes no negative one."""
_STATA_REMARKS: Mapping[str, str] = {
    "shared": "  // too small: ignores the noise that the sets share",
    "posterior": "  // Rubin's rule, which mi estimate applies",
}
_WHY_SCALED = "# rows of a set / records of the file: converts W to the size of the file\n"


@dataclass(frozen=True, slots=True)
class Code:
    """Example code for the analysis of the sets, complete and ready to run.

    Attributes:
        formula: Formula of the example regression for `dp-release infer`; empty if no column is
            numeric.
        python_regression, r_regression, stata_regression: That regression on every set, combined.
        python, r, stata: Any other estimate, combined.
        python_table, r_table: Code that reads a noisy table; empty if there is none.
    """

    formula: str
    python_regression: str
    r_regression: str
    stata_regression: str
    python: str
    r: str
    stata: str
    python_table: str
    r_table: str


def example_code(published: Published, pooled: Pooled) -> Code:
    """Return code for the columns of a release, in Python, R and Stata.

    Args:
        published: The release.
        pooled: All its measurements.
    """
    column, number, table = _example(published)
    model, rule = _model(published, pooled), rule_of(published.mode, published.sets)
    total, degrees = _total(rule)
    records, rows = round(published.records, 3), sum(published.set_rows) / max(published.sets, 1)
    factor = size_factor(published.set_rows, records)
    ratio = f"{rows:.10g} / {records!r}"
    linked = published.schema.linked
    names = published.schema.names
    if linked is not None:
        names = (linked.key, *published.schema.household_schema.names)
    stata_names = valid_names(names)
    level = _example_level(column, pooled) if column.levels else ""
    values = {
        "m": published.sets,
        "file": "" if linked is None else f"/{linked.households}",
        "rule": rule,
        "total": total,
        "degrees": degrees,
        "scale": f"{ratio} * " if factor != 1 else "",
        "ratio": ratio if factor != 1 else "",
        "why_scaled": _WHY_SCALED if factor != 1 else "",
        "model": model,
        "column": column,
        "level": level,
        "level_number": level_numbers(column)[level] if column.levels else 0,
        "names": stata_names,
        "fit": _stata_fit(model, stata_names) if model else "",
        "remark": _STATA_REMARKS.get(rule, ""),
        "number": number,
        "half_width": margin_of(table, shares_of(published.schema.domain)) if table else 0,
        "together": _together(published, pooled, table) if table else "",
    }
    python, r, stata = (
        _templates().get_template(f"example_{language}.jinja").make_module(values)
        for language in ("python", "r", "stata")
    )
    regressions = [_text(each, "regression") if model else "" for each in (python, r, stata)]
    tables = [_text(each, "table") if table else "" for each in (python, r)]
    return Code(
        formula=model.formula if model else "",
        python_regression=regressions[0],
        r_regression=regressions[1],
        stata_regression=regressions[2],
        python=_text(python, "estimate"),
        r=_text(r, "estimate"),
        stata=_text(stata, "estimate"),
        python_table=tables[0],
        r_table=tables[1],
    )


@cache
def _templates() -> Environment:
    """Return the environment of the templates of code, which is not HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "examples", encoding="utf-8"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "python": repr,
        "r": partial(json.dumps, ensure_ascii=False),
        "r_name": _r_name,
    }
    return environment


def _text(module: TemplateModule, part: str) -> str:
    """Return a part of the code, which is a macro of its template."""
    return str(getattr(module, part)()).rstrip("\n")


def size_factor(rows: Sequence[int], records: float) -> float:
    """Return the factor that converts W from the size of a set to the size of the file.

    The variance within a set belongs to as many records as the set has. The factor is 1 if the
    sizes nearly agree, and without sets.

    Args:
        rows: Number of rows of each set.
        records: Number of records of the file.
    """
    ratio = sum(rows) / len(rows) / max(records, 1.0) if rows else 1.0
    return ratio if abs(ratio - 1) > SIZES_DIFFER else 1.0


@dataclass(frozen=True, slots=True)
class _Model:
    """The example regression: a number on columns of the same measured table."""

    outcome: Column
    predictors: tuple[Column, ...]
    formula: str


def _model(published: Published, pooled: Pooled) -> _Model | None:
    """Return a linear regression that a measured table covers, or one of the mean alone."""
    # A survey weight is neither an outcome nor a predictor.
    columns = {column.name: column for column in _columns_to_read(published) if not column.role}
    numeric = [name for name, one in columns.items() if one.type.sums]
    best: tuple[tuple[int, float], str, tuple[str, ...]] | None = None
    # Cached by column: a release may have hundreds of columns and a thousand tables.
    frequent = cache(lambda name: _frequent(columns[name], pooled))
    for table in tables_of(published.released):
        for name in numeric:
            # Dates need a conversion, and a level that is in no set has no coefficient.
            others = tuple(
                other
                for other in table.clique
                if other != name
                and other in columns
                and not columns[other].type.own_texts
                and frequent(other)
            )
            rank = (-len(others[:2]), table.scale)
            if name in table.clique and others and (best is None or rank < best[0]):
                best = rank, name, others[:2]
    if best is not None:
        _, name, others = best
    elif numeric:
        name, others = numeric[0], ()
    else:
        return None
    right = " + ".join(_formula_name(other) for other in others) or "1"
    return _Model(
        columns[name], tuple(columns[other] for other in others), f"{_formula_name(name)} ~ {right}"
    )


def _columns_to_read(published: Published) -> tuple[Column, ...]:
    """Return the columns of the file that the code reads: of linked tables, of households."""
    linked = published.schema.linked
    return published.schema.columns if linked is None else published.schema.household_schema.columns


def _frequent(column: Column, pooled: Pooled) -> bool:
    """Whether the noisy tables make it safe to assume that every set has every level."""
    if not column.levels:
        return True
    counts, width = pooled.counts((column.name,)), pooled.half_width((column.name,))
    if counts is None or width is None:
        return False
    return bool((counts[: len(column.levels)] > max(2 * width, 30)).all())


def _formula_name(name: str) -> str:
    """Return a column's name as it is written in a formula."""
    return f"Q({name!r})" if name in ("C", "I", "Q") else written_name(name)


def _total(rule: Rule) -> tuple[str, str]:
    """Return code for T and for the root of its degrees of freedom, the same in every language.

    Raises:
        ValueError: if there is no example code for the rule.
    """
    if rule == "posterior":
        added = "(1 + 1 / m) * B"
        return f"W + {added}", f"(m - 1) * (1 + W / ({added}))"
    if rule in ("split", "shared"):
        return "W + B / m", "(m - 1) * (1 + m * W / B)"
    raise ValueError(f"There is no example code for the rule {rule!r}.")


def _example(published: Published) -> tuple[Column, int, Measurement | None]:
    """Return a column, the number of a noisy table in `marginals.parquet`, and that table.

    A column with levels is preferred. Without a table, its number is 0.
    """
    columns = _columns_to_read(published)
    column = next((column for column in columns if column.levels), columns[0])
    best = min(
        (
            (number, item)
            for number, item in enumerate(published.released, start=1)
            if isinstance(item, Measurement) and item.clique
        ),
        key=lambda pair: (column.name not in pair[1].clique, len(pair[1].clique), pair[1].scale),
        default=(0, None),
    )
    return column, *best


def _example_level(column: Column, pooled: Pooled) -> str:
    """Return the label of the most frequent level according to the noisy tables.

    If it is a group whose levels are drawn again, the sets do not have it: then their first level.
    """
    counts = pooled.counts((column.name,))
    code = 0 if counts is None else int(counts[: len(column.levels)].argmax())
    label = column.levels[code].label
    return label if label in column.label_codes() else column.in_sets.levels[0].label


def _together(published: Published, pooled: Pooled, table: Measurement) -> str:
    """Return a comment on the precision of a cell if other measurements improve it; else empty."""
    width = pooled.half_width(table.clique)
    if width is None or math.ceil(width) >= margin_of(table, shares_of(published.schema.domain)):
        return ""
    return (
        "# This is the noise of one table. All measurements together give a count to within"
        f" ±{math.ceil(width)}.\n"
    )


def _r_name(name: str) -> str:
    """Return a column's name as it is written in a formula of R."""
    usual = name.isascii() and name.isidentifier() and not name.startswith("_")
    return name if usual and name not in _R_WORDS else f"`{name}`"


_R_WORDS = frozenset(
    {
        *("if", "else", "repeat", "while", "function", "for", "in", "next", "break"),
        *("TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"),
    }
)


def _stata_fit(model: _Model, names: Mapping[str, str]) -> str:
    """Return the command of Stata that fits the example regression to the set in memory."""
    words, prefix = ["regress", names[model.outcome.name]], ""
    for column in model.predictors:
        numbers = level_numbers(column).values() if column.levels else ()
        words.append(f"i.{names[column.name]}" if numbers else names[column.name])
        if any(not 0 <= number <= LARGEST_FACTOR_LEVEL for number in numbers):
            prefix = "xi: "
    return prefix + " ".join(words)
