"""Example code for the report, with the columns and the combining rule of the release."""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from dp_core.bundle.published import Published
from dp_core.bundle.report.pictures import estimate_column
from dp_core.bundle.report.table_precision import Precision, precision_of
from dp_core.inference.combine import Rule
from dp_core.inference.combining_rules import rule_of
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.noise_size import half_width
from dp_core.schema.definition import Column
from dp_core.wall.released import Measurement, tables_of

SIZES_DIFFER = 0.05
"""Relative difference between the sizes of set and file above which W is corrected."""


@dataclass(frozen=True, slots=True)
class Code:
    """Example code for the analysis of the sets, complete and ready to run.

    Attributes:
        formula: Formula of the example regression for `dp-release infer`; empty if no column is
            numeric.
        python_regression, r_regression: That regression on every set, combined.
        python, r: Any other estimate, combined.
        python_table, r_table: Code that reads a noisy table; empty if there is none.
    """

    formula: str
    python_regression: str
    r_regression: str
    python: str
    r: str
    python_table: str
    r_table: str


def example_code(published: Published, known: Precision | None = None) -> Code:
    """Return code for the columns of a release, in Python and in R.

    Args:
        published: The release.
        known: Precision of its cells; computed by default.
    """
    pooled = (known or precision_of(published)).pooled
    column, number, table = _example(published)
    level = _example_level(column, published, pooled) if column.levels else ""
    model = _model(published, pooled)
    together = _together(pooled, table) if table else []
    return Code(
        formula=model.formula if model else "",
        python_regression="\n".join(_python_regression(model, published)) if model else "",
        r_regression="\n".join(_r_regression(model, published)) if model else "",
        python="\n".join(_python(column, level, published)),
        r="\n".join(_r(column, level, published)),
        python_table="\n".join(_python_table(number, table, together)) if table else "",
        r_table="\n".join(_r_table(number, table, together)) if table else "",
    )


def size_factor(published: Published) -> float:
    """Return the factor that converts W from the size of a set to the size of the file.

    The variance within a set belongs to as many records as the set has. The factor is 1 if the
    sizes nearly agree.
    """
    rows = sum(published.set_rows) / published.sets
    ratio = rows / max(round(published.records, 3), 1.0)
    return ratio if abs(ratio - 1) > SIZES_DIFFER else 1.0


@dataclass(frozen=True, slots=True)
class _Model:
    """The example regression: a number on columns of the same measured table."""

    outcome: Column
    predictors: tuple[Column, ...]
    formula: str


def _model(published: Published, pooled: Pooled | None) -> _Model | None:
    """Return a linear regression that a measured table covers, or one of the mean alone."""
    # A survey weight is neither an outcome nor a predictor.
    columns = {column.name: column for column in published.schema.columns if not column.role}
    numeric = [name for name, one in columns.items() if one.kind in ("integer", "number")]
    best: tuple[tuple[int, float], str, tuple[str, ...]] | None = None
    tables = tables_of(published.released)
    # Cached by column: a release may have hundreds of columns and a thousand tables.
    frequent = cache(lambda name: _frequent(columns[name], tables, pooled))
    for table in tables:
        for name in numeric:
            # Dates need a conversion, and a level that is in no set has no coefficient.
            others = tuple(
                other
                for other in table.clique
                if other != name
                and other in columns
                and columns[other].kind != "date"
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
    right = " + ".join(_quoted(other) for other in others) or "1"
    return _Model(
        columns[name], tuple(columns[other] for other in others), f"{_quoted(name)} ~ {right}"
    )


def _frequent(column: Column, tables: Sequence[Measurement], pooled: Pooled | None) -> bool:
    """Whether the noisy tables make it safe to assume that every set has every level."""
    if not column.levels:
        return True
    found = estimate_column(column.name, tables, pooled)
    return found is not None and bool(
        (found.counts[: len(column.levels)] > max(2 * found.half_width, 30)).all()
    )


def _quoted(name: str) -> str:
    """Return a column's name as it is written in a formula."""
    usual = name.isidentifier() and not keyword.iskeyword(name) and name not in ("C", "I", "Q")
    return name if usual else f"Q({name!r})"


def _scaled(published: Published) -> str:
    if size_factor(published) == 1:
        return ""
    rows = sum(published.set_rows) / published.sets
    return f"{rows:.10g} / {round(published.records, 3)!r} * "


def _why_scaled(published: Published) -> list[str]:
    if size_factor(published) == 1:
        return []
    return ["# rows of a set / records of the file: converts W to the size of the file"]


def _total(rule: Rule) -> tuple[str, str, Rule]:
    """Return code for T, for the root of its degrees of freedom, and the rule.

    Raises:
        ValueError: if there is no example code for the rule.
    """
    if rule == "noise-aware":
        added = "(1 + 1 / m) * B"
        return f"W + {added}", f"(m - 1) * (1 + W / ({added}))", rule
    if rule in ("split", "shared"):
        return "W + B / m", "(m - 1) * (1 + m * W / B)", rule
    raise ValueError(f"There is no example code for the rule {rule!r}.")


def _too_narrow(rule: Rule) -> str:
    return "  # too small: ignores the noise that the sets share" if rule == "shared" else ""


def _python_regression(model: _Model, published: Published) -> list[str]:
    total, degrees, rule = _total(rule_of(published.mode, published.sets))
    path = "pd.read_parquet(f'synthetic/set-{k}.parquet')"
    fit = f"smf.ols({model.formula!r}, {path}).fit()"
    lines = [
        "import pandas as pd, scipy.stats as st, statsmodels.formula.api as smf",
        f"m = {published.sets}",
        f"fits = [{fit}",
        "        for k in range(1, m + 1)]",
    ]
    if published.sets == 1:
        return [*lines, "print(fits[0].summary())  # one set: standard errors ignore its noise"]
    lines += [
        "q, u = (pd.DataFrame(x) for x in ([f.params for f in fits], [f.bse**2 for f in fits]))",
        *_why_scaled(published),
        f"Q, W, B = q.mean(), {_scaled(published)}u.mean(), q.var()",
        f"T, df = {total}, {degrees} ** 2{_too_narrow(rule)}",
    ]
    if rule == "noise-aware":
        lines += [
            "c = min(f.df_resid for f in fits)",
            "df = 1 / (1 / df + (c + 3) / (c + 1) / c * T / W)  # Barnard & Rubin",
        ]
    return [
        *lines,
        "half = st.t.ppf(0.975, df) * T**0.5",
        "print(pd.DataFrame({'estimate': Q, 'std_error': T**0.5, 'df': df,",
        "                    'low': Q - half, 'high': Q + half}))",
    ]


def _r_regression(model: _Model, published: Published) -> list[str]:
    total, degrees, rule = _total(rule_of(published.mode, published.sets))
    right = " + ".join(_r_name(one.name) for one in model.predictors) or "1"
    lines = ["library(arrow)"]
    if any(one.kind == "ordinal" for one in model.predictors):
        lines.append('options(contrasts = c("contr.treatment", "contr.treatment"))')
    lines += [
        f"m <- {published.sets}",
        "# or read.csv(..., stringsAsFactors = TRUE) for sets in CSV format",
        f"fits <- lapply(1:m, function(k) lm({_r_name(model.outcome.name)} ~ {right},",
        '  data = as.data.frame(read_parquet(sprintf("synthetic/set-%d.parquet", k)))))',
    ]
    if published.sets == 1:
        return [*lines, "summary(fits[[1]])  # one set: standard errors ignore its noise"]
    lines += [
        "q <- do.call(cbind, lapply(fits, coef))",
        "u <- do.call(cbind, lapply(fits, function(f) diag(vcov(f))))",
        *_why_scaled(published),
        f"Q <- rowMeans(q); W <- {_scaled(published)}rowMeans(u); B <- apply(q, 1, var)",
        f"V <- {total}; df <- {degrees}^2{_too_narrow(rule)}",
    ]
    if rule == "noise-aware":
        lines += [
            "c0 <- min(sapply(fits, df.residual))",
            "df <- 1 / (1 / df + (c0 + 3) / (c0 + 1) / c0 * V / W)  # Barnard & Rubin",
        ]
    return [
        *lines,
        "half <- qt(0.975, df) * sqrt(V)",
        "cbind(estimate = Q, std_error = sqrt(V), df = df, low = Q - half, high = Q + half)",
    ]


def _example(published: Published) -> tuple[Column, int, Measurement | None]:
    """Return a column, the number of a noisy table in `marginals.parquet`, and that table.

    A column with levels is preferred. Without a table, its number is 0.
    """
    columns = published.schema.columns
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


def _example_level(column: Column, published: Published, pooled: Pooled | None) -> str:
    """Return the label of the most frequent level according to the noisy tables."""
    found = estimate_column(column.name, tables_of(published.released), pooled)
    code = int(found.counts[: len(column.levels)].argmax()) if found else 0
    return column.levels[code].label


def _python(column: Column, level: str, published: Published) -> list[str]:
    if column.levels:
        analysis = [
            f"    share = (data[{column.name!r}] == {level!r}).mean()",
            "    return share, share * (1 - share) / len(data)",
        ]
    else:
        analysis = [f"    values = data[{column.name!r}].dropna()"]
        if column.kind == "date":
            analysis.append(
                "    values = (pd.to_datetime(values) - pd.Timestamp('1970-01-01')).dt.days"
            )
        analysis.append("    return values.mean(), values.var() / len(values)")
    total, degrees, _ = _total(rule_of(published.mode, published.sets))
    return [
        "import pandas as pd",
        "from scipy import stats",
        "",
        "def estimate(data):  # your analysis of one set: an estimate and its variance",
        *analysis,
        "",
        f"m = {published.sets}",
        "sets = [pd.read_parquet(f'synthetic/set-{k}.parquet') for k in range(1, m + 1)]",
        "q, w = zip(*(estimate(data) for data in sets))",
        *_why_scaled(published),
        f"Q, W = sum(q) / m, {_scaled(published)}sum(w) / m",
        "B = sum((x - Q) ** 2 for x in q) / (m - 1) if m > 1 else 0.0",
        f"T = {total}",
        f"df = {degrees} ** 2 if B > 0 else float('inf')",
        "half = stats.t.ppf(0.975, df) * T ** 0.5",
        "print(f'{Q:.4f}, 95 % interval {Q - half:.4f} to {Q + half:.4f}')",
    ]


def _r(column: Column, level: str, published: Published) -> list[str]:
    name = _r_text(column.name)
    if column.levels:
        analysis = [
            f"  share <- mean(data[[{name}]] %in% {_r_text(level)})",
            "  c(share, share * (1 - share) / nrow(data))",
        ]
    else:
        analysis = [
            f"  values <- as.numeric(na.omit(data[[{name}]]))",
            "  c(mean(values), var(values) / length(values))",
        ]
    total, degrees, _ = _total(rule_of(published.mode, published.sets))
    return [
        "library(arrow)",
        "",
        "estimate <- function(data) {  # your analysis of one set: an estimate and its variance",
        *analysis,
        "}",
        "",
        f"m <- {published.sets}",
        'results <- sapply(sprintf("synthetic/set-%d.parquet", 1:m),',
        "                  function(path) estimate(as.data.frame(read_parquet(path))))",
        "Q <- mean(results[1, ])",
        *_why_scaled(published),
        f"W <- {_scaled(published)}mean(results[2, ])",
        "B <- if (m > 1) var(results[1, ]) else 0",
        f"V <- {total}",
        f"df <- if (B > 0) {degrees}^2 else Inf",
        "Q + c(-1, 0, 1) * qt(0.975, df) * sqrt(V)",
    ]


def _together(pooled: Pooled | None, table: Measurement) -> list[str]:
    """Return a comment on the precision of a cell if other measurements improve it."""
    width = None if pooled is None else pooled.half_width(table.clique)
    if width is None or math.ceil(width) >= half_width(table.noise, table.scale):
        return []
    return [
        "# This is the noise of one table. All measurements together give a count to within"
        f" ±{math.ceil(width)}."
    ]


def _python_table(number: int, table: Measurement, together: list[str]) -> list[str]:
    return [
        "import pandas as pd",
        "",
        "tables = pd.read_parquet('marginals.parquet')",
        "print(tables.groupby('table')['columns'].first().map(list))  # all tables",
        f"table = tables[tables['table'] == {number}].copy()",
        f"table['plus_minus'] = {half_width(table.noise, table.scale)}"
        "  # half-width of the 95 % range of its noise",
        *together,
        "print(table[['labels', 'count', 'plus_minus']])",
    ]


def _r_table(number: int, table: Measurement, together: list[str]) -> list[str]:
    return [
        "library(arrow)",
        "",
        'tables <- as.data.frame(read_parquet("marginals.parquet"))',
        "tapply(sapply(tables$columns, toString), tables$table, unique)  # all tables",
        f"table <- tables[tables$table == {number}, ]",
        f"table$plus_minus <- {half_width(table.noise, table.scale)}"
        "  # half-width of the 95 % range of its noise",
        *together,
        'table[, c("labels", "count", "plus_minus")]',
    ]


def _r_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


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
