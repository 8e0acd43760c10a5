"""What several benchmarks share."""

from __future__ import annotations

import resource

MIXED_SIZES = (2, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 30, 50, 100)
"""Levels of 20 columns, as a survey may have them."""


def cpu_of_children() -> float:
    """Return the CPU seconds of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
