"""The synthetic sets of a bundle as pandas frames, read when they are first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from dp_core.analysis.regression.frames import levels_of
from dp_core.bundle.best_set import BEST
from dp_core.bundle.reading import Bundle
from dp_core.errors import BadInput
from dp_core.schema.definition import Schema
from dp_core.schema.panel.panel_waves import ABSENT, TAKES_PART
from dp_core.text.pages.page import Fact, Page, Sentence
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class SyntheticSets(Printed, Sequence["pd.DataFrame"]):
    """The m synthetic sets of a release, in order; `sets[0]` is set 1.

    Of linked tables, `sets[0]` is a dictionary of two frames by the names of the tables: that of
    households with its key, and that of persons with its link and key.

    A set is read when it is first used, and kept. Its columns are those of the schema, in its
    order: categories are categoricals over the levels of the schema (ordinals in their order), with
    NaN for a missing value, and dates are `datetime64`.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._read: dict[int, pd.DataFrame] = {}

    def __len__(self) -> int:
        return self._bundle.claims.sets

    @overload
    def __getitem__(self, place: int) -> pd.DataFrame: ...

    @overload
    def __getitem__(self, place: slice) -> list[pd.DataFrame]: ...

    def __getitem__(self, place: int | slice | str) -> pd.DataFrame | list[pd.DataFrame]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        if isinstance(place, str):
            what = "a column" if self._bundle.claims.schema.linked is None else "a table"
            raise TypeError(f"{self._no_set()} Write sets[0][{place!r}] for {what} of a set.")
        try:
            number = range(len(self))[place] + 1
        except IndexError:
            raise IndexError(self._no_set()) from None
        return self._set(number)

    def best(self) -> pd.DataFrame:
        """Return the best set; of a release of mode `shared`, set 1.

        Raises:
            BadInput: if the release has no best set.
        """
        if self._bundle.claims.best is not None:
            return self._set(BEST)
        if len(self) and self._bundle.rule == "shared":
            return self[0]
        made = self._no_set() if not len(self) else "Only mode `posterior` makes one; use `sets`."
        raise BadInput(f"There is no best set. {made}")

    def _set(self, number: int) -> pd.DataFrame:
        if number not in self._read:
            self._read[number] = _frame(self._bundle, number)
        return self._read[number]

    def waves(self, place: int) -> pd.DataFrame:
        """Return a set of a panel with a row for each person and wave.

        Its columns are `person` (the number of the record, from 0), `wave`, the constant columns
        and the varying ones under their names in the file. A person has a row in each wave in which
        they take part.

        Args:
            place: Number of the set, from 0.

        Raises:
            BadInput: if the release is not of a panel.
        """
        import pandas as pd

        schema, panel = self._bundle.claims.schema, self._bundle.claims.schema.panel
        if panel is None:
            raise BadInput("This release is not of a panel, so its records have no waves.")
        wide = self[place]
        constant = [name for name in schema.names if panel.place(name) is None]
        parts = []
        for wave in panel.waves:
            names = {of[wave]: name for name, of in panel.columns.items() if wave in of}
            part = wide[[*constant, *names]].rename(columns=names)
            for name in names.values():
                if isinstance(part[name].dtype, pd.CategoricalDtype):
                    kept = [each for each in part[name].cat.categories if each != ABSENT]
                    part[name] = part[name].cat.set_categories(kept)
            part.insert(0, "wave", wave)
            part.insert(0, "person", range(len(part)))
            if not panel.balanced:
                part = part[wide[panel.takes_part[wave]] == TAKES_PART[0]]
            parts.append(part)
        long = pd.concat(parts).sort_values("person", kind="stable")
        return long.reset_index(drop=True)

    def page(self) -> Page:
        """Return the numbers of sets and rows, and the names of the columns; reads no set."""
        if not len(self):
            return (Sentence(self._no_set()),)
        claims = self._bundle.claims
        rows, linked = ", ".join(f"{rows:,}" for rows in claims.rows), claims.schema.linked
        if linked is not None:
            return (
                Fact("Sets", f"{len(self)}, of {rows} households"),
                Fact(linked.households, ", ".join(linked.household_reads)),
                Fact(linked.persons, ", ".join(linked.person_reads)),
            )
        return (
            Fact("Sets", f"{len(self)}, of {rows} rows"),
            Fact("Columns", ", ".join(claims.schema.names)),
        )

    def _no_set(self) -> str:
        if not len(self):
            return (
                "This release has no sets: it consists of noisy tables, which `query` answers from."
            )
        return f"This release has {len(self)} sets: sets[0] to sets[{len(self) - 1}]."


def _frame(bundle: Bundle, number: int) -> Any:
    """Return one set: a frame or, of linked tables, two by the names of the tables.

    Raises:
        BadInput: if the file cannot be read.
    """
    schema = bundle.claims.schema
    linked = schema.linked
    if linked is None:
        return _pandas(bundle.read_set(number, schema.names), schema)
    found = bundle.read_tables(number)
    return {
        linked.households: _pandas(found.households, schema.household_schema),
        linked.persons: _pandas(found.persons, schema.person_schema),
    }


def _pandas(table: pa.Table, schema: Schema) -> pd.DataFrame:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    found: Any = table.to_pandas(date_as_object=False)
    for column in schema.released:
        if column.levels:
            levels = pd.CategoricalDtype(levels_of(column), ordered=column.type.ordered)
            found[column.name] = found[column.name].astype(levels)
        elif column.missing == "level" and pa.types.is_integer(column.scale.stored):
            # Without rounding: pandas would store whole numbers beside a null as floats.
            whole = table.column(column.name)
            numbers = np.array(whole.fill_null(0).to_numpy(), dtype=np.int64)
            missing = np.array(whole.is_null().to_numpy(), dtype=bool)
            found[column.name] = pd.arrays.IntegerArray(numbers, missing)
    return cast("pd.DataFrame", found)
