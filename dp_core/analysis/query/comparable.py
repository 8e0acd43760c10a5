"""Which releases can be compared, and which of their levels are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dp_core.analysis.query.asked_counts import Asked
from dp_core.bundle.reading import Bundle
from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.errors import BadInput
from dp_core.inference.questions.question import Condition, fold_text
from dp_core.schema.definition import Column, Schema

MOST_NAMED = 6
"""Most levels that a note names."""


Places = tuple[int, ...]
"""Places of groups among the answers of a release."""


def check_releases(later: Bundle, earlier: Bundle) -> tuple[str, ...]:
    """Return what the reader must know about two releases that are compared.

    Raises:
        BadInput: if they are the same release, or have the same noise.
    """
    if later is earlier or (
        later.folder is not None
        and earlier.folder is not None
        and _statement(later).get("sha256") == _statement(earlier).get("sha256")
    ):
        raise BadInput(
            f"{later.place} and {earlier.place} are the same release, {later.claims.name}: compare"
            " it with an earlier one."
        )
    if _same_tables(later, earlier):
        raise BadInput(
            f"{later.place} and {earlier.place} use the same noisy tables, so every change is"
            " exactly 0: compare releases that measured different files."
        )
    return tuple(_release_notes(later, earlier))


def check_questions(later: Asked, earlier: Asked, places: tuple[str, str]) -> None:
    """Refuse a question that does not mean the same in both releases.

    Args:
        later: The question as the later release understands it.
        earlier: The question as the earlier one does.
        places: Folders of the later and of the earlier release.

    Raises:
        BadInput: if records are counted in one and households or persons in the other, a column
            has levels in one and numbers in the other, or a text means different levels.
    """
    if later.counted != earlier.counted:
        raise BadInput(
            f"The question counts {later.counted} in {places[0]} and {earlier.counted} in"
            f" {places[1]}, so there is no change between them."
        )
    used = (
        *later.question.groups,
        *(each.column for each in later.question.conditions),
        *filter(None, (later.question.number,)),
    )
    for name in dict.fromkeys(used):
        kinds = [_kind(each.schema.column(name)) for each in (later, earlier)]
        if kinds[0] != kinds[1]:
            raise BadInput(
                f"{name!r} has {kinds[0]} in {places[0]} and {kinds[1]} in {places[1]}: ask a"
                " question without it."
            )
    for one, other in zip(later.question.conditions, earlier.question.conditions, strict=False):
        _check_condition(one, other, later.schema, earlier.schema, places)


def common_groups(later: Asked, earlier: Asked) -> tuple[Places, Places, tuple[str, ...]]:
    """Return the groups that both releases have, in the order of the later one.

    A level is matched by its label, otherwise by its text in the file; a bin by its edges.

    Returns:
        Places of the groups in the later and in the earlier release, and what the reader must know
        about groups and conditions that differ.

    Raises:
        BadInput: if they have no group in common.
    """
    names = later.question.groups
    maps = [_same_codes(later.schema.column(name), earlier.schema.column(name)) for name in names]
    places = {codes: place for place, codes in enumerate(earlier.labels())}
    order = sorted((codes, place) for place, codes in enumerate(later.labels()))
    found: list[tuple[int, int]] = []
    for codes, place in order:
        pairs = zip(maps, codes, strict=True)
        its = tuple(each[code] for each, code in pairs if code in each)
        if len(its) == len(names) and its in places:
            found.append((place, places[its]))
    if not found:
        columns = [_kind(later.schema.column(name)) for name in names]
        what = " and ".join(f"{kind} of {name}" for kind, name in zip(columns, names, strict=True))
        raise BadInput(f"No group is in both releases: the {what} differ completely.")
    notes = [
        note
        for name, each in zip(names, maps, strict=True)
        if (note := _left_out(later, earlier, name, each))
    ]
    words = (earlier.question.in_words, later.question.in_words)
    if fold_text(words[0]) != fold_text(words[1]):
        notes.append(f"The earlier release reads the question as `{words[0]}`.")
    number = later.question.number
    if number is not None:
        notes += _number_notes(later.schema.column(number), earlier.schema.column(number))
    mine, theirs = zip(*found, strict=True)
    return mine, theirs, tuple(notes)


def _release_notes(later: Bundle, earlier: Bundle) -> Iterator[str]:
    dates = [created_on(each) for each in (later, earlier)]
    if dates[0] is not None and dates[1] is not None and dates[0] < dates[1]:
        yield (
            f"The earlier release of this comparison was made on {dates[1]}, after the other one"
            f" ({dates[0]}). Exchange the two, unless their files are in this order."
        )
    titles = [each.claims.schema.title for each in (later, earlier)]
    if fold_text(titles[0]) != fold_text(titles[1]):
        yield (
            f"The titles of the releases differ: {titles[1]!r} (earlier) and {titles[0]!r}. Check"
            " that both describe the same population."
        )
    records = [_record(each.claims.schema) for each in (later, earlier)]
    if records[0] != records[1]:
        yield (
            f"A record is {records[1]} in the earlier release and {records[0]} in the later one:"
            " check that both describe the same population."
        )
    panels = [each.claims.schema.panel for each in (later, earlier)]
    waves = ["none" if each is None else ", ".join(each.waves) for each in panels]
    if waves[0] != waves[1]:
        yield (
            f"The releases have different waves: {waves[1]} (earlier) and {waves[0]}. Each counts"
            " all persons who take part in any of its waves, so shares of all persons are shares of"
            " different groups; compare the persons who take part in one wave."
        )


def _record(schema: Schema) -> str:
    """Return what a record is."""
    if schema.panel is not None:
        return "a person with all waves of a panel"
    if schema.linked is not None:
        return "a household with its members"
    if schema.unit.word == "person":
        return "a person" if schema.unit.max_rows == 1 else "one of the rows of a person"
    return "a row"


def created_on(bundle: Bundle) -> str | None:
    """Return the day of a release as its statement has it; None in memory."""
    if bundle.folder is None:
        return None
    found = _statement(bundle).get("release", {}).get("created")
    return None if found is None else str(found)[:10]


def _statement(bundle: Bundle) -> Mapping[str, Any]:
    assert bundle.folder is not None
    found: Mapping[str, Any] = json.loads((bundle.folder / STATEMENT).read_bytes())
    return found


def _same_tables(later: Bundle, earlier: Bundle) -> bool:
    """Return whether two releases have the same measurements.

    Reservations alone do not show this: their receipts have no time of day and no ledger name.
    """
    payers = [getattr(each.claims, "payer", None) for each in (later, earlier)]
    reserves = [None if each is None else each.reserve.hash for each in payers]
    if None not in reserves and reserves[0] != reserves[1]:
        return False
    one, other = later.measured, earlier.measured
    return len(one) == len(other) and all(
        np.array_equal(mine.values, theirs.values) for mine, theirs in zip(one, other, strict=True)
    )


def _kind(column: Column) -> str:
    if column.levels:
        return "levels"
    return column.scale.values if column.type.own_texts else "numbers"


def _check_condition(
    later: Condition,
    earlier: Condition,
    schema: Schema,
    other: Schema,
    places: tuple[str, str],
) -> None:
    """Refuse a text that means one level in one release and another level in the other."""
    column, its = schema.column(later.column), other.column(earlier.column)
    if not column.levels or fold_text(later.text) == fold_text(earlier.text):
        return
    same = _same_codes(column, its)
    if any(code in same and same[code] not in earlier.codes for code in later.codes):
        raise BadInput(
            f"The same text means `{later.text}` in {places[0]} and `{earlier.text}` in"
            f" {places[1]}: write the label of the level."
        )


def _same_codes(later: Column, earlier: Column) -> dict[int, int]:
    """Return the code of the earlier release for each code of the later one, where they match."""
    found: dict[int, int] = {}
    if later.missing_code is not None and earlier.missing_code is not None:
        found[later.missing_code] = earlier.missing_code
    if not later.levels:
        bins = {_bin(earlier, code): code for code in range(earlier.bins)}
        for code in range(later.bins):
            if _bin(later, code) in bins:
                found[code] = bins[_bin(later, code)]
        return found
    for named in ("label", "text"):
        mine, theirs = (
            _unique([fold_text(getattr(level, named)) for level in each.levels])
            for each in (later, earlier)
        )
        for name, code in mine.items():
            if name in theirs and code not in found and theirs[name] not in found.values():
                found[code] = theirs[name]
    return found


def _bin(column: Column, code: int) -> tuple[Any, Any]:
    return column.edges[code], column.edges[code + 1]


def _unique(names: list[str]) -> dict[str, int]:
    return {name: code for code, name in enumerate(names) if names.count(name) == 1}


def _left_out(later: Asked, earlier: Asked, name: str, same: Mapping[int, int]) -> str:
    """Return a note on the groups that only one release has; empty if there are none."""
    parts = []
    taken = {*same.values()}
    for asked, word, known in ((earlier, "earlier", taken), (later, "later", {*same})):
        column, place = asked.schema.column(name), asked.question.groups.index(name)
        codes = sorted({codes[place] for codes in asked.labels()} - known)
        labels = [column.code_labels()[code] for code in codes]
        shown = ", ".join(labels[:MOST_NAMED])
        more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
        if labels:
            parts.append(f"{shown}{more} ({word})")
    kind = "Levels" if later.schema.column(name).levels else "Bins"
    return (
        f"{kind} of {name} that only one release has are left out: {'; '.join(parts)}."
        if parts
        else ""
    )


def _number_notes(later: Column, earlier: Column) -> list[str]:
    notes = []
    if later.edges != earlier.edges:
        notes.append(f"The bins of {later.name} differ between the releases.")
    if later.description != earlier.description:
        notes.append(
            f"The descriptions of {later.name} differ: {earlier.description!r} (earlier) and"
            f" {later.description!r}. Check that it has the same unit in both."
        )
    return notes
