"""Codes: the whole numbers from 0 that stand for the values of a column, and their types. Public.

Codes in memory have 16 bits, or 32 if a column has more codes than 16 bits can number. All columns
of a table have the same type, which `Domain.code_type` states. The code store has the smallest type
for each column.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Codes of one column or of several: `uint16` or `uint32`; views of a code store also `uint8`."""

CodeType: TypeAlias = np.dtype[np.unsignedinteger[Any]]

_TYPES: tuple[CodeType, ...] = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def stored_type(size: int) -> CodeType:
    """Return the smallest type for codes below `size`.

    Raises:
        ValueError: if 32 bits are too few.

    >>> stored_type(256).name, stored_type(257).name, stored_type(65_537).name
    ('uint8', 'uint16', 'uint32')
    """
    for kind in _TYPES:
        if size - 1 <= np.iinfo(kind).max:
            return kind
    raise ValueError(f"Codes have at most 32 bits, too few for {size:,} codes.")


def code_type(*sizes: int) -> CodeType:
    """Return the type in memory of columns of these numbers of codes: `uint16`, or `uint32`.

    Raises:
        ValueError: if 32 bits are too few.

    >>> code_type(2, 3).name, code_type(65_536).name, code_type(2, 65_537).name
    ('uint16', 'uint16', 'uint32')
    """
    return max(stored_type(max(sizes, default=1)), _TYPES[1], key=lambda kind: kind.itemsize)
