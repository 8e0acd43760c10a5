"""Schemas in a notebook: reading one, and drafting one for a frame or a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.display.page import Page, Sentence
from dp_core.display.printed import Printed
from dp_core.errors import BadInput
from dp_core.schema.definition import Schema
from dp_core.schema.draft import draft_schema as draft_file
from dp_core.schema.draft import draft_table
from dp_core.schema.reading.schema_file import load_schema

if TYPE_CHECKING:
    import pandas as pd


def read_schema(path: str | os.PathLike[str]) -> Schema:
    """Return the schema in a file.

    Args:
        path: The YAML file; `docs/schema.md` describes it.

    Raises:
        BadInput: naming file, line, key and what is expected there.

    >>> import dp_core as dp
    >>> dp.read_schema("town.schema.yaml")
    Schema('Town survey': sex, age, region, income)
    """
    return load_schema(Path(path))


class SchemaDraft(Printed):
    """A schema to complete: it prints its YAML.

    `read_schema` refuses every value that is still to be filled in.

    Attributes:
        text: The YAML.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the draft to a file, and return its path.

        Args:
            path: The file, such as `survey.schema.yaml`.
            overwrite: Whether to replace a file that exists, which may be a completed schema; False
                by default.

        Raises:
            BadInput: if the file exists or cannot be written.
        """
        file = Path(path)
        try:
            with file.open("w" if overwrite else "x", encoding="utf-8") as out:
                out.write(self.text)
        except FileExistsError:
            raise BadInput(
                f"{file} exists and may be a completed schema; name another file, or give"
                " overwrite=True."
            ) from None
        except OSError as error:
            raise BadInput(f"{file} cannot be written ({error.strerror}).") from None
        return file

    def page(self) -> Page:
        return (Sentence(self.text),)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.text)}</pre>"


def draft_schema(
    data: pd.DataFrame | str | os.PathLike[str], *, name: str = "a frame"
) -> SchemaDraft:
    """Return a schema to complete, for a pandas frame or for a CSV or Parquet file.

    Only the names of the columns are used, and the types that a frame or a Parquet file states. No
    value is looked at: levels and bounds that were read off confidential data would disclose them.

    Args:
        data: The frame, or the path of the file.
        name: Name of the frame in the draft's first line.

    Raises:
        BadInput: if there is no such file, or a name is not printable or not unique.
        TypeError: if it is neither a frame nor a path.

    >>> import dp_core as dp, pandas as pd
    >>> draft = dp.draft_schema(pd.DataFrame({"sex": ["m", "f"], "income": [1.5, 2.5]}))
    >>> [line for line in draft.text.splitlines() if line.startswith(("  sex", "  income"))]
    ['  sex:', '  income:']
    """
    if isinstance(data, str | os.PathLike):
        return SchemaDraft(draft_file(Path(data)))
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise TypeError(
            "A schema is drafted for a pandas frame or the path of a CSV or Parquet file, not for"
            f" {type(data).__name__}."
        )
    other = next((each for each in data.columns if not isinstance(each, str)), None)
    if other is not None:
        raise BadInput(f"The frame has a column named {other!r}, which is no text; rename it.")
    return SchemaDraft(
        draft_table(
            name,
            [(each, _stated(data.dtypes.iloc[place])) for place, each in enumerate(data.columns)],
        )
    )


def _stated(dtype: Any) -> Any:
    """Return the Arrow type that a column's type states, None for one that is not read."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(dtype, pd.ArrowDtype):
        return dtype.pyarrow_dtype
    # privacy: a categorical carries the levels of the data, which are not looked at.
    is_type = pd.api.types
    if isinstance(dtype, pd.CategoricalDtype) or is_type.is_string_dtype(dtype):
        return pa.string()
    for test, kind in (
        (is_type.is_bool_dtype, pa.bool_()),
        (is_type.is_integer_dtype, pa.int64()),
        (is_type.is_float_dtype, pa.float64()),
        (is_type.is_datetime64_any_dtype, pa.timestamp("ns")),
    ):
        if test(dtype):
            return kind
    return None
