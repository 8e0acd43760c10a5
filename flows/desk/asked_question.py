"""A question as it was asked: a regression or a table, and the columns that it needs."""

from __future__ import annotations

import keyword
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dp_core.errors import BadInput
from dp_core.inference.formulas.declared_analysis import declared_analysis
from dp_core.inference.questions.between_waves import read_any_question
from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin
from dp_core.text.documents.typed_text import printable

Kind = Literal["regression", "table"]

HOW = (
    'A question is a regression such as "income ~ age + sex", or a table such as "share by sex" or'
    ' "mean of income by region".'
)
MOST_CHARACTERS = 2_000
_QUOTES = {"“": "”", "„": "“", "‘": "’", "«": "»", "'": "'", '"': '"', "`": "`"}


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that can be answered.

    Attributes:
        kind: `regression` or `table`.
        text: The question as it was understood. Equal questions have equal texts.
        columns: Released columns that it names, in the order of the schema.
        table: Columns of the table that is measured, in the order of the schema; () for a
            regression.
    """

    kind: Kind
    text: str
    columns: tuple[str, ...]
    table: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[str, ...]:
        """Key of what is measured: equal for questions that the same release answers."""
        return (self.kind, *self.table) if self.table else (self.kind, self.text)


def read_asked(text: str, schema: Schema) -> AskedQuestion:
    """Return the question that a text asks about a file.

    Args:
        text: The question, a formula or in the language of `query`.
        schema: Schema of the whole file.

    Raises:
        BadInput: if it is neither, or a regression that cannot be measured directly.
    """
    asked = _without_quotes(text)
    if not asked:
        raise BadInput(f"The question is empty. {HOW}")
    if len(asked) > MOST_CHARACTERS:
        raise BadInput(f"The question is longer than {MOST_CHARACTERS:,} characters.")
    if asked != printable(asked):
        raise BadInput("The question has characters that cannot be printed; type it again.")
    if "~" in asked:
        return _about_the_schema(_regression, asked, schema)
    home = os.path.expanduser("~")
    if home != "~" and f" {home} " in f" {asked} ":
        raise BadInput(
            "The shell replaced ~ by the path of the home folder; put the question in quotes."
        )
    return _about_the_schema(_table, asked, schema)


def _about_the_schema(
    read: Callable[[str, Schema], AskedQuestion], text: str, schema: Schema
) -> AskedQuestion:
    """Return what `read` reads; its errors then speak of the schema instead of a release."""
    try:
        return read(text, schema)
    except BadInput as error:
        said = error.message
        for other in ("The release has no column", "There is no column"):
            said = said.replace(other, f"The schema ({schema.title}) has no column")
        said = said.replace("no column of the release", f"no column of the schema ({schema.title})")
        raise BadInput(said) from None


def _without_quotes(text: str) -> str:
    """Return a question without the quotes that a shell or a word processor left around it."""
    found = " ".join(text.split())
    while len(found) > 1 and _QUOTES.get(found[0]) == found[-1] and found.count(found[0]) < 3:
        found = found[1:-1].strip()
    return found


def _regression(text: str, schema: Schema) -> AskedQuestion:
    try:
        found = declared_analysis(text, schema)
    except BadInput as error:
        said = error.message.replace("a declared analysis", "a regression that a desk answers")
        raise BadInput(said) from None
    predictors = [name for name in schema.names if name in found.predictors]
    right = " + ".join(map(_formula_name, predictors)) or "1"
    formula = f"{_formula_name(found.outcome)} ~ {right}"
    columns = tuple(name for name in schema.names if name in found.columns)
    return AskedQuestion("regression", formula, columns)


def _formula_name(name: str) -> str:
    """Return a column as it is written in a formula.

    >>> _formula_name("age"), _formula_name("hours a week")
    ('age', "Q('hours a week')")
    """
    plain = name.isidentifier() and not keyword.iskeyword(name)
    return name if plain else f"Q({name!r})"


def _table(text: str, schema: Schema) -> AskedQuestion:
    # Whoever only asks for help imports none of this.
    from dp_core.analysis.query.answering import read_informative

    try:
        question = read_any_question(text, schema)
        if not schema.private:
            read_informative(text, schema)  # nobody pays for what every file answers alike
    except BadInput as error:
        raise BadInput(f"{error.message}{_formula_meant(text, schema)}") from None
    columns = tuple(name for name in schema.names if name in question.columns)
    table = {origin(schema, name)[0] for name in columns}
    if schema.nested is not None:
        areas = [name for name in schema.nested.columns if name in table]
        table -= {*areas[:-1]}  # the smallest areas decide the larger ones
    if not table:
        # The number of records is the sum of any table; a table of few cells has the least noise.
        table = {min(schema.columns, key=lambda column: column.size).name}
        columns = tuple(table)
    words = question.in_words
    return AskedQuestion(
        kind="table",
        text=words if _means(words, schema, words) else text,
        columns=columns,
        table=tuple(name for name in schema.names if name in table),
    )


def _formula_meant(text: str, schema: Schema) -> str:
    """Return advice for a text that probably means a formula, such as `y = a + b`."""
    meant = text.replace("=", "~", 1)
    try:
        if "=" in text:
            return f' For a regression write "{_regression(meant, schema).text}".'
    except BadInput:
        pass
    return f" {HOW}" if "+" in text else ""


def _means(text: str, schema: Schema, words: str) -> bool:
    """Return whether a text is read as the question that these words describe."""
    try:
        return read_any_question(text, schema).in_words == words
    except BadInput:
        return False
