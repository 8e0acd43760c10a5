"""Drafts of schemas for a frame or a file: `dp_core.draft_schema`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.analysis.notebook.schemas import SchemaDraft
from dp_core.confidential.sources.frame_source import frame_source, frame_table
from dp_core.errors import BadInput
from dp_core.inspection.public_profile import public_codebook
from dp_core.schema.codebooks.codebook_draft import draft_from_codebook, scalar
from dp_core.schema.codebooks.codebook_file import read_codebook
from dp_core.schema.draft import draft_schema as draft_file
from dp_core.schema.draft import draft_table

if TYPE_CHECKING:
    import pandas as pd


def draft_schema(
    data: pd.DataFrame | str | os.PathLike[str],
    *,
    codebook: str | os.PathLike[str] | None = None,
    public_data: bool = False,
    title: str | None = None,
    name: str = "the frame",
) -> SchemaDraft:
    """Return a schema to complete, for a pandas frame or for a CSV or Parquet file.

    Only the names of the columns are used, and the types that a frame or a Parquet file states. No
    value is looked at, because levels and bounds taken from confidential data disclose them.

    Args:
        data: The frame, or the path of the file.
        codebook: Path of a codebook; defaults to None (column names only).
        public_data: Whether the data are public, so that the draft takes levels and bounds from
            them; False by default. Only for a frame, and without `codebook`: the command
            `dp-release schema draft FILE --public-data` asks the ledger about a file first.
        title: Title of the data; None (the default) to leave it to be filled in.
        name: Name of the frame in the draft's first line.

    Raises:
        BadInput: if the file does not exist or cannot be read, if a name of a column is not
            printable or not unique, or if a path is given with `public_data`.
        TypeError: if it is neither a frame nor a path.

    >>> import dp_core as dp, pandas as pd
    >>> people = pd.DataFrame({"sex": ["m", "f"] * 50, "age": [*range(100)]})
    >>> print(dp.draft_schema(people).text.rpartition("columns:")[2].partition("ignore")[0])
    <BLANKLINE>
      sex:
        type: category
        levels:        # [the file's texts], or {text: label}, in order for an ordinal
      age:
        type: integer
        min:           # smallest legal value
        max:           # largest legal value
    <BLANKLINE>
    >>> dp.draft_schema(people, public_data=True).text.count("levels: [f, m]")
    1
    """
    if codebook is not None and public_data:
        raise BadInput("draft_schema: give a codebook or public_data=True, not both.")
    described = None if codebook is None else read_codebook(Path(codebook))
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if public_data:
            # privacy: a ledger may know the file as confidential, and this room knows no ledger.
            raise BadInput(
                "draft_schema: public_data=True takes a frame, not a path, because this function"
                " cannot check in the ledger that the file is not confidential. The command"
                f" dp-release schema draft {path} --public-data checks it. Or read the file with"
                " pandas."
            )
        return SchemaDraft(_with_title(draft_file(path, described), title))
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise TypeError(
            "A schema is drafted for a pandas frame or the path of a CSV or Parquet file, not for"
            f" {type(data).__name__}."
        )
    # privacy: no value is looked at. A categorical carries the levels of the data.
    plain = {column: object for column, kind in data.dtypes.items() if kind == "category"}
    stated = frame_table(data.iloc[:0].astype(plain)).schema
    text = draft_table(name, [(field.name, field.type) for field in stated])
    if public_data:
        described = public_codebook(frame_source(frame_table(data)), name)
    if described is not None:
        text = draft_from_codebook(described, stated.names, name)
    return SchemaDraft(_with_title(text, title))


def _with_title(text: str, title: str | None) -> str:
    """Return a draft with its title."""
    if title is None:
        return text
    stated = f"title: {scalar(title, quoted=True)}"
    return re.sub(r"^title:.*$", lambda _: stated, text, count=1, flags=re.MULTILINE)
