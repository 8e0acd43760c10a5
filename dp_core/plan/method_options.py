"""Reads the options of a method from the spec into the fields of its frozen dataclass.

The type annotation of a field decides how its text is read, so a new method needs no code here.
Allowed are `bool`, `int`, `float`, `str`, `Fraction`, `Literal`, `tuple[X, ...]` (cliques are
`tuple[tuple[str, ...], ...]`), and unions of these with or without None.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, Union

from dp_core.errors import BadInput, nearest
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

CLIQUES = tuple[tuple[str, ...], ...]


def read_options(
    method: Any,
    name: str,
    section: Node,
    preset: Mapping[str, object],
    reserved: Sequence[str],
    check_clique: Callable[[Node], object],
) -> Any:
    """Return the method with its options.

    Args:
        method: Frozen dataclass; its fields are the options.
        name: The method's name in the spec.
        section: Node of the stage.
        preset: Options that the preset sets; the spec overrides them.
        reserved: Keys of the stage that are not options.
        check_clique: Refuses a list of columns that the schema does not have.

    Raises:
        BadInput: if an option is unknown, of the wrong type, or refused by the method.
    """
    hints = typing.get_type_hints(method)
    fields = {field.name: field for field in dataclasses.fields(method) if _is_option(field)}
    given = {key: node for key, node in section.entries().items() if key not in reserved}
    options = dict(preset)
    for key, node in given.items():
        if key not in fields:
            place = Node(None, node.source, node.line, section.key)
            raise place.error(
                f"there is no key {shown(key)} here, and {name} has no option of that name."
                f"{nearest(key, (*reserved, *fields))}"
            )
        options[key] = convert(node, hints[key])
        if hints[key] == CLIQUES:
            for clique in node.items():
                check_clique(clique)
    for key, field in fields.items():
        bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if bare and key not in options:
            raise section.error(f"{name} needs the option {key!r}.")
    try:
        return method(**options)
    except ValueError as error:
        told = str(error)
        named = next((key for key in given if key in told), None)
        if named is None:
            raise section.error(told) from None
        if not told.startswith(f"{named} and "):
            # The place names the key already.
            told = told.removeprefix(f"{named} ")
        raise given[named].error(told) from None


def convert(node: Node, hint: Any) -> Any:
    """Return a node's value as the annotated type.

    Raises:
        BadInput: if it is not of that type.
        TypeError: if a spec cannot state values of the annotated type.
    """
    if hint is bool:
        return node.boolean()
    if hint is int:
        return node.integer()
    if hint is float:
        return float(node.fraction())
    if hint is Fraction:
        return node.fraction()
    if hint is str:
        return node.text()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        words = {str(value): value for value in arguments}
        return words[node.choice(tuple(words))]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(convert(item, arguments[0]) for item in node.items())
    if origin in (Union, types.UnionType):
        return _convert_union(node, arguments)
    raise TypeError(f"An option of type {hint} cannot be stated in a spec.")


def plain_options(method: Any) -> dict[str, object]:
    """Return a method's options as plain JSON values, exact numbers as text."""
    return {
        field.name: _plain(getattr(method, field.name))
        for field in dataclasses.fields(method)
        if _is_option(field)
    }


def _is_option(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field is an option of its stage; `NO_OPTION` fields are set elsewhere."""
    return field.init and field.metadata != NO_OPTION


def _convert_union(node: Node, arguments: Sequence[Any]) -> Any:
    if type(None) in arguments and node.content in (None, "none"):
        return None
    # Literals first, so that for `int | Literal["auto"]` the error is the one about the number.
    choices = sorted(
        (hint for hint in arguments if hint is not type(None)),
        key=lambda hint: typing.get_origin(hint) is not Literal,
    )
    for hint in choices[:-1]:
        try:
            return convert(node, hint)
        except BadInput:
            continue
    return convert(node, choices[-1])


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
