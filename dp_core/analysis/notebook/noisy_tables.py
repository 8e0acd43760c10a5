"""The published noisy tables of a bundle as pandas frames, by their columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.files.marginals_file import Measured
from dp_core.bundle.quality.relations import as_table
from dp_core.bundle.quality.table_fit import cell_width
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Answers, Measurement, Paid, SparseTable, Totals
from dp_core.errors import BadInput, nearest
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.metrics.noise_size import half_width_in_units
from dp_core.tables.cliques import shares_of
from dp_core.text.pages.page import Listing, Page, Sentence, numbers, texts
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

_OWN = ("count", "margin", "table")


class NoSuchTable(BadInput, KeyError):
    """No published table has exactly these columns."""

    def __str__(self) -> str:
        return self.message


class NoisyTables(Printed, Mapping[Clique, "pd.DataFrame"]):
    """The published noisy tables of counts, by their columns.

    `tables["sex", "age"]` and `tables["age", "sex"]` are the same frame, with a row for each
    published cell:

    - a column for each column of the table, with the labels of the codes;
    - `count`, the noisy number of records, which may be negative; of linked tables it is a number
      of households, each divided equally among its members or its ordered pairs of members;
    - `margin`, half of the width of the 95 % interval of its noise, in the same unit;
    - `table`, the number of the measurement in `marginals.parquet`.

    If the same columns were measured several times, all measurements are in the frame. `query`
    pools everything that was measured into one estimate for each cell. A table of no columns, the
    number of records, is `tables[()]`. A column of the file that is called `count`, `margin` or
    `table` is named `column count`, and so on.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._schema = bundle.claims.schema
        self._shares = shares_of(self._schema.domain)
        self._measured = bundle.measured
        self._held: dict[frozenset[str], tuple[Clique, list[int]]] = {}
        for place, item in enumerate(self._measured):
            for clique in self._cliques(item):
                _, places = self._held.setdefault(frozenset(clique), (clique, []))
                if places[-1:] != [place]:  # single cells of the same columns
                    places.append(place)

    def __iter__(self) -> Iterator[Clique]:
        return (clique for clique, _ in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, columns: object) -> bool:
        return _key(columns) in self._held

    def __getitem__(self, columns: str | Iterable[str]) -> pd.DataFrame:
        import pandas as pd

        key = _key(columns)
        if key not in self._held:
            raise NoSuchTable(self._missing(key))
        clique, places = self._held[key]
        parts = [part for place in places for part in self._parts(place, key)]
        sizes = [part.counts.size for part in parts]
        data: dict[str, Any] = {}
        for name in clique:
            labels = self._schema.column(name).code_labels()
            codes = np.concatenate([part.codes[:, part.clique.index(name)] for part in parts])
            texts = np.array(labels, dtype=object)[codes]
            data[_column_words(name)] = pd.Categorical(
                texts, categories=list(dict.fromkeys(labels))
            )
        data["count"] = np.concatenate([part.counts for part in parts])
        data["margin"] = np.repeat([part.margin for part in parts], sizes)
        data["table"] = np.repeat([part.number for part in parts], sizes)
        return pd.DataFrame(data)

    @property
    def frame(self) -> pd.DataFrame:
        """Everything that was measured: one row for each measurement, in the file's order.

        `kind` is `table`, `sparse` (only the cells above a threshold), `cells` or `parities`
        (single answers), `interaction`, or `sums`. `values` is the number of noisy values, `set`
        the synthetic set that it serves (0: all), `scale` the parameter of the noise, and `margin`
        half of the width of the 95 % interval of the noise of a count, records (NaN for sums).
        """
        import pandas as pd

        return pd.DataFrame(self._rows(), columns=_COLUMNS).set_index("table")

    def page(self) -> Page:
        """Return the measurements, and where their frames are."""
        rows = self._rows()
        shown = tuple(
            (
                *(row[name] for name in ("columns", "kind", "stage", "table", "values")),
                "–" if row["margin"] is None else f"±{row['margin']:,}",
            )
            for row in rows
        )
        columns = (*texts("columns", "kind", "stage"), *numbers("table", "values", "margin"))
        return (
            Sentence(f"{len(rows):,} measurements; tables[COLUMNS] has the counts of a table."),
            Listing(columns, shown),
        )

    def _rows(self) -> list[dict[str, Any]]:
        return [_row(place, item, self._shares) for place, item in enumerate(self._measured, 1)]

    def _cliques(self, item: Measured) -> Sequence[Clique]:
        """Return the columns of every table of counts in a measurement."""
        if isinstance(item, Measurement | SparseTable):
            return (item.clique,)
        if isinstance(item, Answers):
            return item.queries.of if isinstance(item.queries, Cells) else ()
        table = as_table(item, self._schema.coarse or self._schema)
        return () if table is None else (table.clique,)

    def _parts(self, place: int, key: frozenset[str]) -> Iterator[_Counts]:
        """Yield the noisy counts of cells of these columns in a measurement."""
        item, number = self._measured[place], place + 1
        if isinstance(item, SparseTable):
            margin = _margin(item, self._shares)
            yield _Counts(number, item.clique, item.cells, item.values, margin)
        elif isinstance(item, Answers):
            assert isinstance(item.queries, Cells)
            margin = _margin(item, self._shares)
            asked = zip(item.queries.of, item.queries.codes, item.values, strict=True)
            for clique, codes, value in asked:
                if frozenset(clique) == key:
                    yield _Counts(number, clique, np.array([codes]), np.array([value]), margin)
        else:
            coarse = self._schema.coarse or self._schema
            table = item if isinstance(item, Measurement) else as_table(item, coarse)
            assert table is not None
            values, sizes = table.values.ravel(), table.domain.sizes
            every: NDArray[np.int64] = np.empty((1, 0), dtype=np.int64)
            if sizes:
                every = np.stack(np.unravel_index(np.arange(values.size), sizes), axis=1)
            margin = _margin(table, self._shares)
            yield _Counts(number, table.clique, every, values, margin)

    def _missing(self, key: frozenset[str]) -> str:
        for name in sorted(key):
            if name not in self._schema.domain.columns:
                return (
                    f"No column {name!r} was measured.{nearest(name, self._schema.domain.columns)}"
                )
        if not key:
            unit = "records" if self._schema.linked is None else "households"
            return f"No published table gives the number of {unit}; `query` estimates it."
        ordered = [name for name in self._schema.domain.columns if name in key]
        if any(
            isinstance(item, Totals)
            and isinstance(item.of, Interaction)
            and frozenset(item.of.clique) == key
            for item in self._measured
        ):
            return (
                f"Only the interaction of {', '.join(ordered)} was measured, and an interaction has"
                f' no counts. query("count by {", ".join(ordered)}") combines it with the other'
                " tables."
            )
        return (
            f"No published table of counts has exactly the columns {', '.join(ordered)}; `query`"
            " says whether other tables give these counts."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Counts:
    """Noisy counts of cells of one measurement, shape (cells,); codes of shape (cells, columns)."""

    number: int
    clique: Clique
    codes: NDArray[Any]
    counts: NDArray[np.int64]
    margin: float


_COLUMNS = (
    "table",
    "columns",
    "kind",
    "stage",
    "set",
    "round",
    "values",
    "noise",
    "scale",
    "margin",
)


def _key(columns: object) -> frozenset[str]:
    if isinstance(columns, str):
        return frozenset((columns,))
    return frozenset(columns) if isinstance(columns, Iterable) else frozenset((str(columns),))


def _column_words(name: str) -> str:
    return f"column {name}" if name in _OWN else name


def _margin(item: Paid, shares: int) -> float:
    """Return half of the width of the 95 % interval of the noise, rounded up to 0.01 if shared."""
    width = half_width_in_units(item.noise, item.scale, shares)
    return width if shares == 1 else math.ceil(100 * width - 1e-9) / 100


def _row(number: int, item: Measured, shares: int) -> dict[str, Any]:
    """Return a row of `NoisyTables.frame`."""
    kind, columns, margin = _measurement_words(item, shares)
    return {
        "table": number,
        "columns": ", ".join(columns),
        "kind": kind,
        "stage": item.stage,
        "set": item.replicate,
        "round": item.round,
        "values": int(item.values.size),
        "noise": item.noise,
        "scale": item.scale,
        "margin": margin,
    }


def _measurement_words(item: Measured, shares: int) -> tuple[str, tuple[str, ...], float | None]:
    """Return the kind of a measurement, its columns, and the margin of one of its counts."""
    margin = _margin(item, shares)
    if isinstance(item, Measurement):
        return "table", item.clique, margin
    if isinstance(item, SparseTable):
        return "sparse", item.clique, margin
    if isinstance(item, Answers):
        columns = tuple(dict.fromkeys(name for clique in item.queries.cliques for name in clique))
        return ("cells" if isinstance(item.queries, Cells) else "parities"), columns, margin
    if isinstance(item.of, Interaction):
        return "interaction", item.of.clique, cell_width(item.of, item.noise, item.scale)
    return "sums", item.of.clique, None
