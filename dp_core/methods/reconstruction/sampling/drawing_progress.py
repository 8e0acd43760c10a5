"""The progress of drawing records, for samplers whose drawing takes long.

A listener never changes what is drawn. It is called by the thread that draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.reconstruction.reconstructor import Sampler

Progress: TypeAlias = Callable[[float], None]
"""Called with the part of some work that is done, 0 to 1; it never decreases."""


def silent(_done: float) -> None:
    """Ignore the progress."""


def step_of(progress: Progress, start: float, end: float) -> Progress:
    """Return a listener of a step of some work.

    Args:
        progress: Listener of the whole work.
        start: Part of the work before the step.
        end: Part of the work after the step.

    >>> told = []
    >>> step_of(told.append, 0.5, 1.0)(0.5)
    >>> told
    [0.75]
    """
    return lambda done: progress(start + (end - start) * done)


class ReportingSampler(ABC):
    """Base class of samplers that report their progress."""

    __slots__ = ()

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records; same `rng` state, same records."""
        return self.sample_reporting(rows, rng=rng, progress=silent)

    @abstractmethod
    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        """Return the records that `sample` returns, and report the progress."""


@dataclass(frozen=True, slots=True)
class WithListener:
    """A sampler with a listener for its progress.

    Attributes:
        sampler: Draws the records; one that reports nothing counts as done when it returns.
        progress: The listener.
    """

    sampler: Sampler
    progress: Progress

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records, the same as without the listener."""
        if isinstance(self.sampler, ReportingSampler):
            drawn = self.sampler.sample_reporting(rows, rng=rng, progress=self.progress)
        else:
            drawn = self.sampler.sample(rows, rng=rng)
        self.progress(1.0)
        return drawn
