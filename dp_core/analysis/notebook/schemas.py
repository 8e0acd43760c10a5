"""Schemas in a notebook: one that was read, and a draft to complete."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.accounts.requested import words_of
from dp_core.errors import BadInput
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.text.documents.strict_yaml import Document, parse
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Listing, Page, Sentence, Verbatim, numbers, texts
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd


MOST_LEVELS = 6
"""Most levels of a column that a schema prints."""


class OpenSchema(Schema):
    """A schema that a notebook shows as a table of its columns."""

    @property
    def frame(self) -> pd.DataFrame:
        """The released columns: one row for each, with its type, values and number of codes."""
        import pandas as pd

        return pd.DataFrame(list(map(_row, self.released)), columns=_HEADINGS)

    def page(self) -> Page:
        """Return title, unit of privacy and columns."""
        about = f"; about {self.rows_about:,} rows" if self.rows_about else ""
        words = words_of(self.unit).rstrip(",")
        ignored = (Fact("Ignored", ", ".join(self.ignore)),) if self.ignore else ()
        rules = "; ".join(f"{{{rule.text}}}" for rule in self.zeros.rules)
        return (
            Sentence(f"{self.title} (protects {words}{about})"),
            Listing(
                (*texts(*_HEADINGS[:3]), *numbers(_HEADINGS[3])), list(map(_row, self.released))
            ),
            *ignored,
            *((Fact("Impossible", rules),) if rules else ()),
        )

    def __str__(self) -> str:
        from dp_core.text.pages.page_text import page_text

        return page_text(self.page())

    def _repr_html_(self) -> str:
        from dp_core.text.pages.page_html import page_html

        return page_html(self.page())


_HEADINGS = ("column", "type", "values", "codes")


def _row(column: Column) -> tuple[str, str, str, int]:
    if column.unknown:
        values = "chosen privately"
    elif column.levels:
        labels = list(dict.fromkeys(level.label for level in column.levels))
        more = f", ... ({len(labels)} in all)" if len(labels) > MOST_LEVELS else ""
        values = ", ".join(labels[:MOST_LEVELS]) + more
    else:
        low, high = (column.scale.text(bound) for bound in legal_range(column))
        values = f"{low} to {high}, {plural(column.bins, 'bin')}"
    return (
        column.name,
        column.kind,
        values + " or missing" * (column.missing == "level"),
        column.size,
    )


def read_schema(
    source: str | os.PathLike[str] | Mapping[str, object] | Schema | SchemaDraft,
) -> OpenSchema:
    """Return the schema in a file.

    Args:
        source: Path of the YAML file (`docs/schema.md` describes it). Also YAML text of several
            lines, its content as a dictionary, a draft, or a schema, which is returned as it is.

    Raises:
        BadInput: naming file, line, key and what is expected there.
        TypeError: if it is none of these.

    >>> import dp_core as dp
    >>> schema = dp.read_schema("town.schema.yaml")
    >>> schema
    Schema('Town survey': sex, age, region, income)
    >>> schema.frame.shape
    (4, 4)
    """
    if isinstance(source, Schema):
        found = source
    elif isinstance(source, Mapping):
        found = parse_schema(source, first_fault=False)
    elif isinstance(source, SchemaDraft):
        found = _schema_of_text(source.text, "draft")
    elif isinstance(source, str) and "\n" in source:
        found = _schema_of_text(source, "schema")
    elif isinstance(source, str | os.PathLike):
        found = load_schema(Path(source))
    else:
        raise TypeError(
            "A schema is read from the path of its file, from YAML text or from a dictionary, not"
            f" from {type(source).__name__}."
        )
    if isinstance(found, OpenSchema):
        return found
    return OpenSchema(
        **{each.name: getattr(found, each.name) for each in fields(Schema) if each.init}
    )


def _schema_of_text(text: str, name: str) -> Schema:
    return parse_schema(Document(Path(name), parse(text, source=name)))


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
        return (Verbatim(self.text),)

    def __str__(self) -> str:
        return self.text
