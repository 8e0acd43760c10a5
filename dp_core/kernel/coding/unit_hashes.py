"""Whose a row is: the identifiers of units, and hashes of them. Confidential side.

Rows with the same identifier belong to one unit, however it is stored (`stored_texts`): blanks
around it do not count, and 7, 7.0 and the texts `7.0` and `007` are one identifier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.coding.stored_texts import identifier_texts, missing_identifiers

_PURPOSE = b"dp-release rows"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Identifiers:
    """The identifiers of the rows of a batch. Confidential.

    Attributes:
        texts: The distinct identifiers; None for a row without one.
        where: Place of each row's identifier in `texts`, shape (rows,).
    """

    texts: tuple[str | None, ...]
    where: NDArray[np.int64]

    @property
    def without(self) -> int:
        """Number of rows without an identifier."""
        nobody = np.array([text is None for text in self.texts], np.bool_)
        return int(nobody[self.where].sum())

    def hashes(self, words: int, key: bytes = b"") -> NDArray[np.uint64]:
        """Return a BLAKE2b hash of each row's identifier, shape (rows, words).

        Args:
            words: Number of 64-bit words. Of a billion units, two have equal hashes of two words
                with a probability below 1e-20, and of one word with a probability of 3 %.
            key: Secret key of at most 64 bytes; empty (the default) for none.

        Privacy:
            A row's hash depends on its own cell and on the key.
        """
        empty = hashlib.blake2b(digest_size=8 * words, key=key, person=_PURPOSE)
        found = [bytes(8 * words)] * len(self.texts)
        for number, text in enumerate(self.texts):
            if text is not None:
                state = empty.copy()
                state.update(text.encode())
                found[number] = state.digest()
        table = np.frombuffer(b"".join(found), "<u8").astype(np.uint64).reshape(-1, words)
        return table[self.where]


def identifiers(what: str, values: pa.Array, missing: Collection[str]) -> Identifiers:
    """Return the identifiers of the rows of a batch.

    Args:
        what: Beginning of a message: which column it is.
        values: The stored column: texts, or whole numbers of any stored type.
        missing: Texts that mean missing, besides blanks.

    Raises:
        SchemaViolation: if identifiers have another type, or numbers are not whole or too large for
            their type.
    """
    if pa.types.is_null(values.type):
        return Identifiers((None,), np.zeros(len(values), np.int64))
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    # The dictionary of a batch may list the identifiers of the whole file.
    index = np.asarray(values.indices.cast(pa.int64()).fill_null(-1), dtype=np.int64)
    used, where = np.unique(index, return_inverse=True)
    known = values.dictionary.take(pa.array(used, pa.int64(), mask=used < 0))
    nothing = {None, *missing_identifiers(missing).to_pylist()}
    texts = identifier_texts(known, what).to_pylist()
    return Identifiers(tuple(None if text in nothing else text for text in texts), where)
