"""Reads `bins: {private: 12}` and `levels: {private: 20}` of a schema.

How many codes there will be is stated and public; which ones they are is chosen in the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import TypeAlias

from dp_core.documents.node import Node
from dp_core.documents.typed_text import shown
from dp_core.schema.bin_edges import Scale, check_distinct, empty_bin, read_limits, value_text
from dp_core.schema.code_list import Code, unique_labels
from dp_core.schema.definition import Choice, Column, Level, groups_of

Groups: TypeAlias = Mapping[str, tuple[int, ...]]
"""By the name of a group the places of its levels."""

POSITIONS = 4096
"""Most positions of the public grid on which the edges of private bins lie."""
MOST_BINS = 256
OTHER = "other {}"
"""Label of a group's levels that are not kept."""
_EXAMPLE = "{white collar: [clerk, manager], blue collar: [farmer, miner]}"


def is_private(node: Node | None) -> bool:
    """Return whether levels are to be chosen privately."""
    return node is not None and isinstance(node.content, Mapping) and [*node.content] == ["private"]


def with_private_bins(column: Column, node: Node, keys: Mapping[str, Node], scale: Scale) -> Column:
    """Return a column whose bins are chosen privately on a grid between its smallest and largest.

    Args:
        column: Without edges; with its decimals.
        node: Of the column.
        keys: Of the column.
        scale: Its type.

    Raises:
        BadInput: if bounds are missing, or there are no positions for so many bins.
    """
    example = "{private: 12}"
    place = keys["bins"].fields(("private",), required=("private",), example=example)["private"]
    minimum, maximum = read_limits(node, keys, scale)
    number = place.integer(minimum=2, maximum=MOST_BINS)
    edges = _grid(scale, minimum, maximum, column.decimals)
    if number > len(edges) - 1:
        raise place.error(
            f"{number} bins are more than the {len(edges) - 1} values from min to max that can be"
            " told apart."
        )
    check_distinct(edges, place)
    if column.decimals is not None and empty_bin(edges, column.decimals):
        raise keys["decimals"].error(
            f"min and max must be numbers of {column.decimals} decimals where bins are private;"
            f" they are {value_text(minimum, scale)} and {value_text(maximum, scale)}."
        )
    among = replace(column, edges=edges, minimum=minimum, maximum=maximum)
    # Until they are chosen: as many bins, of about equal widths.
    cuts = tuple(code * among.bins // number for code in range(1, number))
    return replace(bins_of(among, cuts), choice=Choice(among=among))


def bins_of(among: Column, cuts: tuple[int, ...]) -> Column:
    """Return a column with bins that meet at some of its positions."""
    edges = among.edges
    return replace(among, edges=(edges[0], *(edges[cut] for cut in cuts), edges[-1]))


def levels_by_group(keys: Mapping[str, Node]) -> tuple[Node, Groups]:
    """Return all levels of a column's `groups` as a schema's `levels`, and which are in each.

    Raises:
        BadInput: if there are no groups, or a level is in two of them.
    """
    if "groups" not in keys:
        raise keys["levels"].error(
            "levels that are chosen privately need `groups`, which list every level the file may"
            f" hold and say what those become that are not kept, such as groups: {_EXAMPLE}."
        )
    node = keys["groups"]
    merged: dict[str, Node] = {}
    groups: dict[str, tuple[int, ...]] = {}
    for group, members in node.ordered_entries(example=_EXAMPLE).items():
        if not group.strip():
            raise members.error("a group's name must not be blank.")
        if not isinstance(members.content, Mapping | tuple):
            members.items(example="[clerk, manager]")  # says what is expected
        entries = members.ordered_entries(example="[clerk, manager]", bare=True)
        if not entries:
            raise members.error("is a group without levels; list some, or leave it out.")
        groups[group] = tuple(range(len(merged), len(merged) + len(entries)))
        for text, place in entries.items():
            if text in merged:
                raise place.error(f"{shown(text)} is in two groups; keep it in one.")
            merged[text] = place
    if not groups:
        raise node.error(f"lists no group; write some, such as {_EXAMPLE}.")
    return Node(merged, node.source, node.line, node.key), groups


def groups_of_codes(column: Column, keys: Mapping[str, Node]) -> Groups:
    """Return the groups that a column's levels form at the top of their code list.

    Raises:
        BadInput: if the list has no hierarchy.
    """
    found = groups_of(column)
    if all(len(group.members) == 1 for group in found):
        raise keys["levels"].error(
            "levels that are chosen privately become groups of their code list, which has no"
            " parents above them; add a column parent to it."
        )
    labels = unique_labels([Code(group.text, group.label) for group in found])
    return {label: group.members for label, group in zip(labels, found, strict=True)}


def with_private_levels(column: Column, keys: Mapping[str, Node], groups: Groups) -> Column:
    """Return a column of which the most frequent levels are kept, and the others become groups.

    Args:
        column: With all its levels.
        keys: Of the column.
        groups: By name the places of their levels.

    Raises:
        BadInput: if all levels would be kept, or a label would stand for two things.
    """
    place = keys["levels"].entries()["private"]
    number = place.integer(minimum=1)
    if number >= len(column.levels):
        raise place.error(
            f"keeps {number} levels of {len(column.levels)}: there is nothing to choose; keep"
            " fewer, or list them as `levels` that are public."
        )
    labels = {level.label for level in column.levels} | {level.text for level in column.levels}
    for group in groups:
        if OTHER.format(group) in labels:
            raise place.error(
                f"{shown(OTHER.format(group))} is a level, and what the rest of the group"
                f" {shown(group)} is called; give one of them another name."
            )
    of = [0] * len(column.levels)
    for number_of_group, members in enumerate(groups.values()):
        for code in members:
            of[code] = number_of_group
    choice = Choice(among=column, groups=tuple(groups), group_of=tuple(of))
    return replace(levels_of(choice, tuple(range(number))), choice=choice)


def levels_of(choice: Choice, kept: tuple[int, ...]) -> Column:
    """Return a column of the levels that are kept, and a level for the rest of each group."""
    among = choice.among
    texts = among.stands_for or tuple((level.text,) for level in among.levels)
    rest: list[list[str]] = [[] for _ in choice.groups]
    for code, group in enumerate(choice.group_of):
        if code not in kept:
            rest[group] += texts[code]
    others = (OTHER.format(group) for group in choice.groups)
    return replace(
        among,
        levels=(*(among.levels[code] for code in kept), *(Level(each, each) for each in others)),
        stands_for=(*(texts[code] for code in kept), *map(tuple, rest)),
    )


def document(column: Column) -> dict[str, object]:
    """Return what a schema states of a column's private choice, all levels written out."""
    assert column.choice is not None
    choice = column.choice
    if not column.levels:
        return {"bins": {"private": str(column.bins)}}
    number = column.bins - len(choice.groups)
    if column.codes is not None:
        return {"levels": {"private": str(number)}}
    members: list[list[object]] = [[] for _ in choice.groups]
    for level, group in zip(choice.among.levels, choice.group_of, strict=True):
        same = level.text == level.label
        members[group].append(level.text if same else {level.text: level.label})
    return {
        "levels": {"private": str(number)},
        "groups": [{group: each} for group, each in zip(choice.groups, members, strict=True)],
    }


def _grid(
    scale: Scale, minimum: Fraction, maximum: Fraction, decimals: int | None
) -> tuple[Fraction, ...]:
    """Return the edges of the positions: one for each value where these suffice, or equal steps."""
    high = maximum if scale == "number" else maximum + 1
    span, unit = high - minimum, Fraction(1)
    if scale == "number":
        # So that every position holds a number of so many decimals.
        unit = span / POSITIONS if decimals is None else Fraction(1, 10**decimals)
    step = unit * max(1, ceil(span / unit / POSITIONS))
    return (*(minimum + step * place for place in range(ceil(span / step))), high)
