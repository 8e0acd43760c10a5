"""Exact answers, seen at the moment in which they are handed to the samplers.

Inside `FrozenNoise.ask`, and nowhere else, the samplers are replaced. The curator, the statistics
and the code around the samplers (`dp_core.kernel.noise`) run as they are. Numbers from a seeded
generator take the place of random ones, the same for every file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.extensions import cell_draws, column_draws, thresholds
from dp_core.kernel.ledger.session import Draw
from dp_core.kernel.mechanisms import additive_noise, private_choice
from dp_core.kernel.mechanisms.grant import Grant

Values = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """Values that get noise one by one.

    Attributes:
        noise: Kind of noise.
        scale: Its parameter, as the sampler gets it.
        values: Exact values, flat.
    """

    noise: str
    scale: Fraction
    values: Values


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of which the largest is reported after noise.

    Attributes:
        gumbel: Whether the noise is Gumbel's.
        scale: Its parameter, as the sampler gets it.
        values: Exact scores.
    """

    gumbel: bool
    scale: Fraction
    values: Values


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells of a table that hold a record.

    Attributes:
        counts: Records of each cell, by its codes.
        sizes: Numbers of codes of the columns.
        scale: Parameter of the noise on the counts; None if records are drawn from the cells.
    """

    counts: dict[tuple[int, ...], int]
    sizes: tuple[int, ...]
    scale: Fraction | None


@dataclass(frozen=True, slots=True, eq=False)
class Conditionals:
    """Tables that records are drawn from, column by column.

    Attributes:
        tables: For each column the counts of its codes (first axis) with those of others.
        others: For each column the columns of the further axes.
        sweeps: Number of times each column of a record is drawn.
    """

    tables: tuple[Values, ...]
    others: tuple[tuple[int, ...], ...]
    sweeps: int


Exact: TypeAlias = Noisy | Scores | Cells | Conditionals
"""What one charge looks at, without noise."""


class FrozenNoise:
    """Asks a question without noise; the result that is returned has frozen noise.

    Args:
        seed: Of the frozen noise.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._grant: Grant | None = None
        self._exact: dict[int, Exact] = {}

    def ask(self, draw: Draw, grants: Sequence[Grant]) -> tuple[list[Exact], list[Values]]:
        """Return the exact answer of each grant, and the results with frozen noise.

        Args:
            draw: Looks at the data, as the curator passes it to a session.
            grants: Made by an audited session; they paid for nothing.

        Raises:
            AssertionError: if a grant was used twice, or not at all.
        """
        self._exact = {}
        with self._replaced():
            results = draw(grants)
        assert len(self._exact) == len(grants)
        return [self._exact[grant.number] for grant in grants], list(results)

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Replace the samplers, and note which grant each is called for."""
        add, choose, release = additive_noise.add, private_choice.choose, thresholds.release

        def noted(function: Any) -> Any:
            def called(*arguments: Any) -> Any:
                self._grant = arguments[-1]
                return function(*arguments)

            return called

        with ExitStack() as replaced:
            for module, name, function in (
                (additive_noise, "add", noted(add)),
                (additive_noise, "add_noise", self._add_noise),
                (private_choice, "choose", noted(choose)),
                (private_choice, "noisy_max", self._noisy_max),
                (thresholds, "release", self._release(release)),
                (thresholds, "add_noise", self._add_noise),
                (column_draws, "draw", self._draw_columns),
                (cell_draws, "draw", self._draw_cells),
                # One piece for each grant.
                (additive_noise, "FEW_CELLS", 1 << 62),
            ):
                replaced.enter_context(patch.object(module, name, function))
            yield

    def _note(self, exact: Exact) -> np.random.Generator:
        """Keep what a grant looks at, and return the generator of its frozen noise."""
        assert self._grant is not None
        number = self._grant.number
        assert number not in self._exact, "One grant was used for two draws."
        self._exact[number] = exact
        return np.random.default_rng([self._seed, number])

    def _add_noise(self, kind: str, values: Values, scale: Fraction) -> Values:
        assert values.dtype == np.int64
        assert self._grant is not None
        number = self._grant.number
        noted = self._exact.get(number)
        if isinstance(noted, Cells) and noted.scale is None:
            # Noted with its cells, by `_release`.
            self._exact[number] = replace(noted, scale=scale)
            rng = np.random.default_rng([self._seed, number])
        else:
            rng = self._note(Noisy(kind, scale, np.array(values).ravel()))
        noise = np.rint(rng.laplace(0, min(float(scale), 1e9), values.shape))
        return np.asarray(values + noise.astype(np.int64))

    def _noisy_max(self, scores: Values, scale: Fraction, *, gumbel: bool) -> int:
        rng = self._note(Scores(gumbel, scale, np.array(scores)))
        # Half of the choices follow the data, the others go anywhere.
        best = int(np.argmax(scores))
        return best if rng.random() < 0.5 else int(rng.integers(len(scores)))

    def _release(self, release: Any) -> Any:
        def noted(cells: Any, counts: Values, sizes: Sequence[int], grant: Grant) -> Values:
            self._grant = grant
            self._note(Cells(_records_by_cell(cells, counts), tuple(sizes), None))
            return np.asarray(release(cells, counts, sizes, grant))

        return noted

    def _draw_columns(
        self, tables: Sequence[Values], others: Sequence[Sequence[int]], sweeps: int, grant: Grant
    ) -> Values:
        self._grant = grant
        exact = Conditionals(
            tuple(np.array(table) for table in tables), tuple(map(tuple, others)), sweeps
        )
        rng = self._note(exact)
        sizes = [table.shape[0] for table in tables]
        return rng.integers(0, sizes, size=grant.step.shape, dtype=np.int64)

    def _draw_cells(
        self, cells: Values, counts: Values, sizes: Sequence[int], grant: Grant
    ) -> Values:
        self._grant = grant
        rng = self._note(Cells(_records_by_cell(cells, counts), tuple(sizes), None))
        return rng.integers(0, sizes, size=grant.step.shape, dtype=np.int64)


def _records_by_cell(cells: Any, counts: Values) -> dict[tuple[int, ...], int]:
    """Return the records of each cell; a cell may be there several times."""
    found: dict[tuple[int, ...], int] = {}
    for codes, count in zip(cells.tolist(), counts.tolist(), strict=True):
        place = tuple(codes)
        found[place] = found.get(place, 0) + count
    return found
