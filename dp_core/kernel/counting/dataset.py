"""A table of integer codes in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Domain


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """Records as codes, either confidential or synthetic.

    Attributes:
        domain: Columns and sizes.
        codes: Shape (columns, rows), each column contiguous in memory. Their type is that of the
            domain, or the wider one if they are a part of a table that needs it.
    """

    domain: Domain
    codes: Codes

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[0] != len(self.domain):
            raise ValueError(
                f"Codes of shape {self.codes.shape} do not have {len(self.domain)} columns."
            )
        if self.codes.dtype not in (self.domain.code_type, np.uint32):
            raise TypeError(
                f"Codes of this domain are {self.domain.code_type}, not {self.codes.dtype}."
            )

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.codes.shape[1])

    def column(self, name: str) -> Codes:
        """Return the codes of one column, shape (rows,)."""
        codes: Codes = self.codes[self.domain.axes((name,))[0]]
        return codes

    def __repr__(self) -> str:
        return f"Dataset({len(self.domain)} columns)"
