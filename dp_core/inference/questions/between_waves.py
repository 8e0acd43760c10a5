"""Reads a change between two waves of a panel: `change in share of work = yes from 2023 to 2024`.

A record of a panel contains every wave of a person: `work_2023` and `work_2024`. The question
names the column of the file, `work`. It is asked once with the column of the first wave and once
with that of the second. Both answers come from the same noisy tables, so the interval of the
change includes their covariance.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from dp_core.errors import BadInput
from dp_core.inference.questions.question import Condition, Question, fold_text
from dp_core.inference.questions.question_grammar import MOST_CHARACTERS, read_question
from dp_core.schema.definition import Column, Schema
from dp_core.schema.panel.panel_waves import ABSENT, TAKES_PART, Panel

_CHANGE = re.compile(r"\s*(?:the\s+)?changes?\s+(?:in|of)\s+(?:the\s+)?", re.IGNORECASE)


def read_any_question(text: str, schema: Schema) -> Question:
    """Return the question that a text asks, which may be a change between waves.

    Raises:
        BadInput: if the text is not a question; the message says what to type instead.
    """
    start = _CHANGE.match(text[:MOST_CHARACTERS])
    if start is None:
        return read_question(text, schema)
    if schema.panel is None:
        raise BadInput(
            "A change in one release is that between waves of a panel, and this release has none."
            " For the change since an earlier release, add --since EARLIER."
        )
    rest, first, second = _waves(text[start.end() : MOST_CHARACTERS].rstrip(" ?."), schema.panel)
    varying = {
        base: {
            wave: schema.column(name)
            for wave, name in names.items()
            if name in schema.domain.columns
        }
        for base, names in schema.panel.columns.items()
    }
    own = [
        {base: columns[wave] for base, columns in varying.items() if wave in columns}
        for wave in (first, second)
    ]
    both = {
        base: dataclasses.replace(column, name=base)
        for base, column in own[0].items()
        if base in own[1]
    }
    for base, columns in varying.items():
        if base not in both and re.search(
            rf"(?<!\w){re.escape(fold_text(base))}(?!\w)", fold_text(rest)
        ):
            waves = ", ".join(columns) or "none"
            raise BadInput(f"{base!r} is not in both waves; the release has it in: {waves}.")
    asked = read_question(rest, schema, also=both)
    _check(asked, [*both], schema)
    in_waves = [
        _in_wave(read_question(rest, schema, also=columns), columns, schema, wave)
        for columns, wave in zip(own, (first, second), strict=True)
    ]
    return dataclasses.replace(asked, waves=(first, second), in_waves=(in_waves[0], in_waves[1]))


def _waves(text: str, panel: Panel) -> tuple[str, str, str]:
    """Return the question without its waves, and the two waves."""
    known = "|".join(re.escape(wave) for wave in sorted(panel.waves, key=len, reverse=True))
    found = re.search(
        rf"(?<!\S)from\s+(?:wave\s+)?({known})\s+to\s+(?:wave\s+)?({known})(?!\S)",
        text,
        re.IGNORECASE,
    )
    first, last = panel.waves[0], panel.waves[-1]
    if found is None:
        stated = re.search(r"(?<!\S)from\s+(?:wave\s+)?(\S+)\s+to\s+(?:wave\s+)?(\S+)(?!\S)", text)
        folded = {wave.casefold() for wave in panel.waves}
        for each in stated.groups() if stated else ():
            if each.casefold() not in folded:
                raise BadInput(
                    f"{each!r} is not a wave of this panel. The waves are {', '.join(panel.waves)}."
                )
        raise BadInput(
            f"A change needs two waves, such as `change in MEASURE from {first} to {last}`. The"
            f" waves are {', '.join(panel.waves)}."
        )
    named = {wave.casefold(): wave for wave in panel.waves}
    one, other = (named[each.casefold()] for each in found.groups())
    if one == other:
        raise BadInput(f"The change from {one} to {one} is 0: name two different waves.")
    return f"{text[: found.start()]} {text[found.end() :]}", one, other


def _check(asked: Question, varying: list[str], schema: Schema) -> None:
    """Refuse a question whose change between waves is not available."""
    if asked.between is not None or asked.measure == "quantile" or asked.is_of_spread:
        what = "difference" if asked.between is not None else asked.measure
        raise BadInput(
            f"The change of a {what} between waves is not available: ask for the {what} in each"
            " wave, and compare the intervals."
        )
    if asked.levels_of in varying:
        label = schema.column(next(iter(_names(schema, asked.levels_of)))).code_labels()[0]
        raise BadInput(
            "The change of a share needs a level:"
            f" `change in share of {asked.levels_of} = {label}`."
        )
    for name in asked.by:
        if name in varying:
            raise BadInput(
                f"{name!r} differs between waves, so it makes no groups of a change: name a column"
                f" that is the same in every wave, or {next(iter(_names(schema, name)))}."
            )


def _names(schema: Schema, base: str) -> list[str]:
    assert schema.panel is not None
    return [name for name in schema.panel.columns[base].values() if name in schema.domain.columns]


def _in_wave(asked: Question, columns: Mapping[str, Column], schema: Schema, wave: str) -> Question:
    """Return the question in one wave, about the persons who take part in it.

    Args:
        asked: The question, whose `number` may be a column of the file.
        columns: Column of the record in this wave, by column of the file.
        schema: The published schema.
        wave: The wave.
    """
    panel = schema.panel
    assert panel is not None
    if asked.number is not None and asked.number in columns:
        asked = dataclasses.replace(asked, number=columns[asked.number].name)
    if panel.balanced:
        return asked
    own = {column.name: column for column in columns.values()}
    used = [own[name] for name in dict.fromkeys(c.column for c in asked.conditions) if name in own]
    here = []
    for column in used:
        labels = column.code_labels()
        if ABSENT in labels:
            codes = tuple(code for code, label in enumerate(labels) if label != ABSENT)
            here.append(Condition(column.name, codes, f"{column.name} != {ABSENT}"))
    # Absent persons have a missing value, so a condition against missing values excludes them.
    narrow = (*asked.where, *(asked.of if asked.measure == "count" else ()))
    known = any(
        own[each.column].missing_code not in (None, *each.codes)
        for each in narrow
        if each.column in own
    )
    if not here and not known and asked.measure not in ("mean", "total"):
        name = panel.takes_part[wave]
        if name not in schema.domain.columns:
            raise BadInput(f"The release has no column {name!r}, which this change needs.")
        code = schema.column(name).code_labels().index(TAKES_PART[0])
        here.append(Condition(name, (code,), f"{name} = {TAKES_PART[0]}"))
    return dataclasses.replace(asked, where=(*asked.where, *here))
