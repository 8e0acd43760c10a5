"""Requests, receipts and grants as plain values that a message can carry.

Arrays and long texts are blocks of the frame. Every value is read back by the types that its field
declares, as the kernel reads a receipt.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from fractions import Fraction
from types import GenericAlias
from typing import Any, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel import extensions
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.errors import GARBAGE
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.questions.descriptions import fields_json, of_type
from dp_core.kernel.questions.vetted import kind_of
from dp_core.kernel.requests import KINDS, Request
from tasks.confidential.frames import Blocks, Malformed

KEPT = 8
"""Number of large parts that both sides keep: methods ask about them in every round."""
LARGE = 1 << 14
"""Bytes of JSON from which a part of a question is kept."""
RECEIPTS = "receipts"
"""Block of an answer with its receipts."""
_QUESTION, _QUESTIONS = "question", "questions"
_PART = "part"


class KeptParts:
    """The large parts of questions that crossed: both sides keep the same ones, the latest."""

    def __init__(self) -> None:
        """Begin with none."""
        self._parts: OrderedDict[str, Any] = OrderedDict()

    def find(self, key: str) -> Any:
        """Return the part of a key, which is now the latest; None if it is not kept."""
        if key in self._parts:
            self._parts.move_to_end(key)
        return self._parts.get(key)

    def keep(self, key: str, part: Any) -> None:
        """Keep a part as the latest."""
        self._parts[key] = part
        if len(self._parts) > KEPT:
            self._parts.popitem(last=False)


def request_values(request: Request, kept: KeptParts) -> tuple[dict[str, Any], Blocks]:
    """Return a request as plain values, and the blocks that belong to it.

    Args:
        request: The request.
        kept: The large parts that were sent before.
    """
    blocks: dict[str, NDArray[Any]] = {}
    values: dict[str, Any] = {"ask": request.KIND}
    new: dict[str, Any] = {}
    for field in dataclasses.fields(request):
        value = getattr(request, field.name)
        if field.name == _QUESTION:
            blocks[_QUESTION] = as_block(_question_values(value, blocks, kept, new))
        elif field.name == _QUESTIONS:
            found = [_question_values(each, blocks, kept, new) for each in value]
            blocks[_QUESTIONS] = as_block(found)
        else:
            values[field.name] = _plain(value, blocks)
    for key, part in new.items():
        kept.keep(key, part)
    return values, blocks


def request_of(values: Mapping[str, Any], blocks: Blocks, kept: KeptParts) -> Request:
    """Return the request of `request_values`.

    Raises:
        Malformed: if it is none of the kernel's, or names a part that was not sent.
    """
    try:
        kind = KINDS[values["ask"]]
        hints = get_type_hints(kind)
        found: dict[str, Any] = {}
        for field in dataclasses.fields(kind):
            if field.name == _QUESTION:
                found[_QUESTION] = _question(of_block(blocks[_QUESTION]), blocks, kept)
            elif field.name == _QUESTIONS:
                each = of_block(blocks[_QUESTIONS])
                found[_QUESTIONS] = tuple(_question(one, blocks, kept) for one in each)
            else:
                found[field.name] = _field(hints[field.name], values[field.name])
        if {*found, "ask"} - {_QUESTION, _QUESTIONS} != {*values}:
            raise Malformed("A request has other fields than its kind.")
        return kind(**found)
    except GARBAGE as error:
        raise Malformed(f"A request of the kernel is not readable ({error}).") from None


def _question_values(
    question: Any, blocks: dict[str, NDArray[Any]], kept: KeptParts, new: dict[str, Any]
) -> dict[str, Any]:
    """Return the name and the fields of a question; large ones are named by their digests."""
    found: dict[str, Any] = {"name": question.NAME}
    for field in dataclasses.fields(question):
        value = getattr(question, field.name)
        if not dataclasses.is_dataclass(value):
            found[field.name] = _plain(value, blocks)
            continue
        # An object that asks in every round is written once, as long as it is kept.
        known = kept.find(f"{id(value)}")
        if known is not None and known[0] is value:
            found[field.name] = {_PART: known[1]}
            continue
        arrays: dict[str, NDArray[Any]] = {}
        text = canonical_json(_plain(value, arrays))
        assert not arrays, "A part of a question is identified by its text, so it has no arrays."
        if len(text) < LARGE:
            found[field.name] = json.loads(text)
            continue
        key = hashlib.sha256(text).hexdigest()
        new[f"{id(value)}"] = value, key
        blocks[key] = np.frombuffer(text, np.uint8)
        found[field.name] = {_PART: key}
    return found


def _question(values: dict[str, Any], blocks: Blocks, kept: KeptParts) -> Any:
    """Return a question of a request, made of the plain values of its fields."""
    name, about = values.pop("name"), values.get("about")
    drawn = type(name) is str and name in extensions.DRAWN
    kind = extensions.extension(name) if drawn else kind_of(name, about)
    hints = get_type_hints(kind)
    if {*values} != {field.name for field in dataclasses.fields(cast(Any, kind))}:
        raise ValueError("a question has other fields than its kind")
    found = {}
    for name, value in values.items():
        if isinstance(value, dict) and {*value} == {_PART}:
            key = value[_PART]
            part = kept.find(key)
            if part is None:
                part = of_type(hints[name], _read(of_block(blocks[key]), blocks))
                kept.keep(key, part)
            found[name] = part
        else:
            found[name] = of_type(hints[name], _read(value, blocks))
    return kind(**found)


def _plain(value: Any, blocks: dict[str, NDArray[Any]]) -> Any:
    """Return a value as JSON; arrays become blocks."""
    if isinstance(value, np.ndarray):
        name = str(len(blocks))
        blocks[name] = value
        return {"array": name}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (tuple, list)):
        return [_plain(each, blocks) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, blocks) for name, each in value.items()}
    if dataclasses.is_dataclass(value):
        own = getattr(value, "to_json", None)
        return _plain(own() if own else fields_json(value), blocks)
    return value


def _read(value: Any, blocks: Blocks) -> Any:
    """Return the value that `_plain` wrote, with lists for tuples."""
    if isinstance(value, list):
        return [_read(each, blocks) for each in value]
    if isinstance(value, dict):
        if {*value} == {"array"}:
            return blocks[value["array"]]
        if {*value} == {"fraction"}:
            return exact_fraction(value["fraction"])
        return {name: _read(each, blocks) for name, each in value.items()}
    return value


def _field(hint: Any, value: Any) -> Any:
    """Return a field of a request that is no question."""
    if get_origin(hint) is collections.abc.Sequence:
        hint = GenericAlias(tuple, (*get_args(hint), ...))
    return of_type(hint, _read(value, {}))


def as_block(value: Any) -> NDArray[np.uint8]:
    """Return plain values as a block of a frame."""
    return np.frombuffer(canonical_json(value), np.uint8)


def of_block(block: NDArray[Any]) -> Any:
    """Return the plain values of a block."""
    return json.loads(block.tobytes())


def receipt_values(grant: Grant) -> dict[str, Any]:
    """Return what was paid for one result, as plain values."""
    step = grant.step
    return {
        "number": grant.number,
        "stage": step.stage,
        "name": step.name,
        "cost": str(step.cost),
        "event": step.event.to_json(),
        "shape": list(step.shape),
        "asks": canonical_json(dict(step.asks)).decode(),
    }


def receipt_of(values: Mapping[str, Any]) -> Grant:
    """Return the grant of `receipt_values`.

    Raises:
        ValueError: if the values are none (or another error of `GARBAGE`).
    """
    step = Step(
        stage=values["stage"],
        name=values["name"],
        cost=exact_fraction(values["cost"]),
        event=event_from_json(values["event"]),
        shape=tuple(values["shape"]),
        asks=json.loads(values["asks"]),
    )
    return Grant(values["number"], step)
