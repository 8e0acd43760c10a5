"""Reads the bins and the levels of a column: public ones, or `{private: 12}`.

Public bins follow from `min`, `max`, `bins` and `edges`, exactly. For `bins: {private: 12}` and
`levels: {private: 20, rest: drawn}`, the schema states how many codes there will be; the release
chooses which ones, privately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import TypeAlias

from dp_core.schema.bin_pieces import MAX_CODES, check_distinct, empty_bin
from dp_core.schema.code_list import Code, unique_labels
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.column_types.registry import types_with_texts
from dp_core.schema.definition import Choice, Column, Level
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

Groups: TypeAlias = Mapping[str, tuple[int, ...]]
"""Positions of a group's levels, by the name of the group."""
POSITIONS = 4096
"""Most positions of the public grid on which the edges of private bins lie."""
MOST_BINS = 256
ALL = "levels"
"""Group of all levels of a code list without a hierarchy."""
RESTS = ("merged", "drawn")
"""What the sets contain for levels that are not kept: their groups, or levels drawn at random."""
OTHER = "other {}"
"""Label of a group's levels that are not kept."""
_EXAMPLE = "{white collar: [clerk, manager], blue collar: [farmer, miner]}"
_KEYS = ("private", "rest")
_CHOICE = "{private: 200, rest: drawn}"


def read_bins(column: Column, node: Node, keys: Mapping[str, Node]) -> Column:
    """Return a column with its bins and limits.

    Args:
        column: The column without them.
        node: Its definition.
        keys: The keys of its definition.

    Raises:
        BadInput: if a key is missing or invalid; the message says what it must be.
    """
    scale = column.scale
    if "bins" in keys and "edges" in keys:
        raise keys["edges"].error("give bins or edges, not both; remove one of the keys.")
    if "edges" in keys:
        minimum = scale.read(keys["min"]) if "min" in keys else None
        maximum = scale.read(keys["max"]) if "max" in keys else None
        edges = _read_edges(keys["edges"], scale, minimum, maximum)
        return replace(column, edges=edges, minimum=edges[0], maximum=edges[-1] - scale.step)
    low, high = read_limits(node, keys, scale)
    for other in types_with_texts():
        if "bins" in keys and keys["bins"].content in other.periods and other is not scale:
            text = quote(str(keys["bins"].content))
            here = (
                f"write {' or '.join(scale.periods)}" if scale.periods else "give a number of bins"
            )
            raise keys["bins"].error(f"{text} is for {other.values}; {here}.")
    return replace(column, edges=scale.edges(node, keys, low, high), minimum=low, maximum=high)


def read_limits(
    column: Node, keys: Mapping[str, Node], scale: ValueType
) -> tuple[Fraction, Fraction]:
    """Return the smallest and the largest legal value of a column, both of which must be stated."""
    for key in ("min", "max"):
        if key not in keys:
            raise column.error(
                f"the key {key!r} is missing; state the smallest and the largest legal value from"
                " public knowledge."
            )
    minimum, maximum = (scale.read(keys[key]) for key in ("min", "max"))
    if minimum > maximum:
        raise keys["max"].error(
            f"is smaller than min ({scale.text(minimum)}); correct one of them."
        )
    if scale.continuous and minimum == maximum:
        raise keys["max"].error("equals min; it must be larger.")
    return minimum, maximum


def _read_edges(
    node: Node,
    scale: ValueType,
    minimum: Fraction | None,
    maximum: Fraction | None,
) -> tuple[Fraction, ...]:
    items = node.items(example="[0, 10, 20, 50]")
    if len(items) < 2:
        raise node.error(f"needs at least two edges, for one bin; there are {len(items)}.")
    if len(items) - 1 > MAX_CODES:
        raise node.error(f"makes {len(items) - 1:,} bins; use at most {MAX_CODES:,}.")
    edges = tuple(scale.read(item) for item in items)
    for item, (low, high) in zip(items[1:], pairwise(edges), strict=True):
        if high <= low:
            raise item.error(
                f"edges must increase, but {scale.text(high)} follows {scale.text(low)}."
            )
    if scale.continuous:
        check_distinct(edges, node)
    step = scale.step
    if minimum is not None and edges[0] != minimum:
        raise node.error(
            f"the first edge must be min, {scale.text(minimum)}; it is {scale.text(edges[0])}."
        )
    if maximum is not None and edges[-1] != maximum + step:
        after = scale.after_max.format(scale.text(maximum + step))
        raise node.error(
            f"the last edge must be {after}; it is {scale.text(edges[-1])}. Change the edge or max."
        )
    return edges


def is_private(keys: Mapping[str, Node]) -> bool:
    """Return whether a column's levels are chosen privately.

    A mapping under `levels` states a private choice or lists public levels with their labels.

    Args:
        keys: The keys of the column's definition.

    Raises:
        BadInput: if the mapping is meant as a private choice, but a key is unknown or missing.
    """
    node = keys.get("levels")
    if node is None or not isinstance(node.content, Mapping):
        return False
    content = node.content
    of_choice = any(one.content in RESTS for one in content.values()) and {*content} & {*_KEYS}
    if content and (of_choice or {*content} <= {*_KEYS}):
        node.fields(_KEYS, required=("private",), example=_CHOICE)
        return True
    return False


def with_private_bins(column: Column, node: Node, keys: Mapping[str, Node]) -> Column:
    """Return a column whose bins are chosen privately on a grid from `min` to `max`.

    Args:
        column: The column without edges, but with its decimals.
        node: Its definition.
        keys: The keys of its definition.

    Raises:
        BadInput: if bounds are missing, or the grid has fewer positions than bins.
    """
    example, scale = "{private: 12}", column.scale
    place = keys["bins"].fields(("private",), required=("private",), example=example)["private"]
    minimum, maximum = read_limits(node, keys, scale)
    number = place.integer(minimum=2, maximum=MOST_BINS)
    edges = _grid(scale, minimum, maximum, column.decimals)
    if number > len(edges) - 1:
        raise place.error(
            f"{number} bins are more than the {len(edges) - 1} values from min to max; state fewer"
            " bins."
        )
    check_distinct(edges, place)
    if column.decimals is not None and empty_bin(edges, column.decimals):
        raise keys["decimals"].error(
            f"with private bins, min and max must have at most {column.decimals} decimals;"
            f" they are {scale.text(minimum)} and {scale.text(maximum)}."
        )
    among = replace(column, edges=edges, minimum=minimum, maximum=maximum)
    # Placeholder until the choice: as many bins, of about equal widths.
    cuts = tuple(code * among.bins // number for code in range(1, number))
    return replace(bins_of(among, cuts), choice=Choice(among=among))


def bins_of(among: Column, cuts: tuple[int, ...]) -> Column:
    """Return a column with bins that meet at some of its positions."""
    edges = among.edges
    return replace(among, edges=(edges[0], *(edges[cut] for cut in cuts), edges[-1]))


def levels_by_group(keys: Mapping[str, Node]) -> tuple[Node, Groups]:
    """Return all levels of a column's `groups` as one node of `levels`, and those of each group.

    Raises:
        BadInput: if there are no groups, or a level is in two of them.
    """
    if "groups" not in keys:
        one = _rest(keys) == "drawn"
        example = "{codes: [a11, a12, b11]}" if one else _EXAMPLE
        raise keys["levels"].error(
            "the key 'groups' is missing; list all levels there, in one group or several, such as"
            f" groups: {example}. A level that is not kept joins its group."
        )
    node = keys["groups"]
    merged: dict[str, Node] = {}
    groups: dict[str, tuple[int, ...]] = {}
    listed = node.ordered_entries(example=_EXAMPLE)
    for group, members in listed.items():
        if not group.strip():
            raise members.error("a group name must not be blank.")
        if not isinstance(members.content, Mapping | tuple):
            members.items(example="[clerk, manager]")  # says what is expected
        entries = members.ordered_entries(example="[clerk, manager]", bare=True)
        if not entries:
            raise members.error("is a group without levels; list some, or remove the group.")
        groups[group] = tuple(range(len(merged), len(merged) + len(entries)))
        for text, place in entries.items():
            if text in merged:
                raise place.error(f"{quote(text)} is in two groups; keep it in one.")
            merged[text] = place
    if not groups:
        raise node.error(f"lists no group; add some, such as {_EXAMPLE}.")
    return replace(node, content=merged), groups


def groups_of_codes(column: Column, keys: Mapping[str, Node]) -> Groups:
    """Return the groups that a column's levels form at the top of their code list.

    Raises:
        BadInput: if the list has no hierarchy.
    """
    assert column.codes is not None
    lines = column.codes.lines()
    labels = {code.text: code.label for code in column.codes.codes}
    labels |= {level.text: level.label for level in column.levels}
    members: dict[str, list[int]] = {}
    for code, level in enumerate(column.levels):
        members.setdefault(lines[level.text][-1], []).append(code)
    if len(members) == len(column.levels):
        if _rest(keys) == "drawn":
            return {ALL: tuple(range(len(column.levels)))}
        raise keys["levels"].error(
            "levels that are not kept join their parents in the code list, and it has none; add a"
            " column `parent` to it, or write `rest: drawn` beside `private`."
        )
    names = unique_labels([Code(text, labels[text]) for text in members])
    return {name: tuple(codes) for name, codes in zip(names, members.values(), strict=True)}


def with_private_levels(column: Column, keys: Mapping[str, Node], groups: Groups) -> Column:
    """Return a column that keeps the most frequent levels and merges the others into groups.

    Args:
        column: The column with all its levels.
        keys: The keys of its definition.
        groups: Positions of the levels of each group.

    Raises:
        BadInput: if all levels would be kept, or a label would have two meanings.
    """
    place = keys["levels"].entries()["private"]
    number = place.integer(minimum=1)
    if number >= len(column.levels):
        raise place.error(
            f"keeps {number} levels of {len(column.levels)}, so there is nothing to choose; keep"
            " fewer, or list all as public `levels`."
        )
    labels = {level.label for level in column.levels} | {level.text for level in column.levels}
    drawn = _rest(keys) == "drawn"
    most = len(column.levels) - len(groups)
    if drawn and number > most:
        keep = f"keep at most {most}, or make fewer groups" if most > 0 else "make fewer groups"
        raise place.error(
            f"keeps {number} levels of {len(column.levels)}; with `rest: drawn` each of the"
            f" {len(groups)} groups needs a level that is not kept: {keep}."
        )
    for group in groups:
        if OTHER.format(group) in labels:
            raise place.error(
                f"{quote(OTHER.format(group))} is a level and also the name for the rest of the"
                f" group {quote(group)}; rename one of them."
            )
    of = [0] * len(column.levels)
    for number_of_group, members in enumerate(groups.values()):
        for code in members:
            of[code] = number_of_group
    choice = Choice(among=column, groups=tuple(groups), group_of=tuple(of), drawn=drawn)
    return replace(levels_of(choice, tuple(range(number))), choice=choice)


def _rest(keys: Mapping[str, Node]) -> str:
    entries = keys["levels"].entries()
    return entries["rest"].choice(RESTS) if "rest" in entries else RESTS[0]


def levels_of(choice: Choice, kept: tuple[int, ...]) -> Column:
    """Return a column with the levels that are kept and one level for the rest of each group."""
    among = choice.among
    texts = among.stands_for or tuple((level.text,) for level in among.levels)
    rest: list[list[str]] = [[] for _ in choice.groups]
    own = {*kept}
    for code, group in enumerate(choice.group_of):
        if code not in own:
            rest[group] += texts[code]
    others = (OTHER.format(group) for group in choice.groups)
    return replace(
        among,
        levels=(*(among.levels[code] for code in kept), *(Level(each, each) for each in others)),
        stands_for=(*(texts[code] for code in kept), *map(tuple, rest)),
    )


def document(column: Column) -> dict[str, object]:
    """Return a column's private choice as a schema states it, with all levels written out."""
    assert column.choice is not None
    choice = column.choice
    if not column.levels:
        return {"bins": {"private": str(column.bins)}}
    levels = {"private": str(column.bins - len(choice.groups))}
    if choice.drawn:
        levels["rest"] = "drawn"
    if column.codes is not None:
        return {"levels": levels}
    members: list[list[object]] = [[] for _ in choice.groups]
    for level, group in zip(choice.among.levels, choice.group_of, strict=True):
        same = level.text == level.label
        members[group].append(level.text if same else {level.text: level.label})
    return {
        "levels": levels,
        "groups": [{group: each} for group, each in zip(choice.groups, members, strict=True)],
    }


def _grid(
    scale: ValueType, minimum: Fraction, maximum: Fraction, decimals: int | None
) -> tuple[Fraction, ...]:
    """Return the edges of the grid: a position for each value if these fit, else equal steps."""
    high = maximum + scale.step
    span, unit = high - minimum, Fraction(1)
    if scale.continuous:
        # Every position then contains a number with these decimals.
        unit = span / POSITIONS if decimals is None else Fraction(1, 10**decimals)
    step = unit * max(1, ceil(span / unit / POSITIONS))
    return (*(minimum + step * place for place in range(ceil(span / step))), high)
