"""Frames: one message with its blocks of numbers, over a socket between two processes.

A frame is two lengths, a JSON object and raw blocks, one after another. The JSON names the blocks,
with their types and shapes. Nothing is pickled, and every length is compared before memory is
allocated.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import canonical_json

MOST_JSON = 1 << 20
"""Most bytes of a frame's JSON; a larger text is a block."""
MOST_BYTES = 1 << 33
"""Most bytes of all blocks of a frame."""

Blocks: TypeAlias = Mapping[str, NDArray[Any]]
"""Arrays of a message by their names."""

_LENGTHS = struct.Struct("<IQ")
_TYPES = ("<i8", "<f8", "<u2", "|u1")
_BLOCKS = "blocks"
_PIECE = 1 << 20


class Malformed(Exception):
    """What arrived is not a frame, or its message is none of the closed list."""


class Gone(Exception):
    """The other process closed the connection."""


def send(to: socket.socket, message: Mapping[str, Any], blocks: Blocks | None = None) -> None:
    """Send a message.

    Args:
        to: The connection.
        message: Plain JSON values.
        blocks: Arrays that belong to it, of the types int64, float64, uint16 or uint8; by default
            none.

    Raises:
        Malformed: if the message is larger than a frame may be.
        Gone: if the other process closed the connection.
    """
    arrays = {
        name: np.asarray(each, each.dtype.newbyteorder("<"), order="C")
        for name, each in (blocks or {}).items()
    }
    listed = [[name, each.dtype.str, list(each.shape)] for name, each in arrays.items()]
    text = canonical_json({**message, _BLOCKS: listed})
    size = sum(each.nbytes for each in arrays.values())
    if len(text) > MOST_JSON or size > MOST_BYTES:
        raise Malformed("A message is larger than a frame may be.")
    try:
        to.sendall(_LENGTHS.pack(len(text), size) + text)
        for each in arrays.values():
            to.sendall(each.reshape(-1).view(np.uint8).data)
    except OSError as error:
        raise Gone from error


def receive(
    of: socket.socket, accept: Callable[[Mapping[str, Any]], int]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the next message, and its blocks.

    Args:
        of: The connection.
        accept: Refuses a message that is none, and returns how many bytes of blocks it may have.

    Raises:
        Malformed: if it is no frame.
        Gone: if the other process closed the connection.
    """
    length, size = _LENGTHS.unpack(_read(of, _LENGTHS.size))
    if length > MOST_JSON or size > MOST_BYTES:
        raise Malformed("A frame is too large.")
    try:
        message = json.loads(bytes(_read(of, length)))
        listed = [
            (str(name), np.dtype(kind), tuple(map(_length, shape)))
            for name, kind, shape in message.pop(_BLOCKS)
            if kind in _TYPES
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Malformed("A frame has no JSON object with a list of blocks.") from None
    if size > accept(message):
        raise Malformed("A message has more blocks than it may have.")
    if sum(kind.itemsize * math.prod(shape) for _, kind, shape in listed) != size:
        raise Malformed("The blocks of a frame have another size than it states.")
    blocks = {}
    for name, kind, shape in listed:
        content = _read(of, kind.itemsize * math.prod(shape))
        blocks[name] = np.frombuffer(content, kind).reshape(shape)
    return message, blocks


def _length(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_BYTES:
        raise ValueError("A length is a whole number.")
    return value


def _read(of: socket.socket, size: int) -> bytearray:
    """Return the next bytes."""
    content = bytearray()
    while len(content) < size:
        # Memory grows with what arrives, not with what was announced.
        try:
            got = of.recv(min(size - len(content), _PIECE))
        except OSError as error:
            raise Gone from error
        if not got:
            raise Gone
        content += got
    return content
