"""How fast this machine is, is measured once.

A release measures it where its home says nothing, which takes 40 ms, and nearly every test has a
home of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tasks.run import home_notes


@pytest.fixture(scope="session", autouse=True)
def speeds_are_kept() -> Iterator[None]:
    """Keep the measurements of this process."""
    with pytest.MonkeyPatch.context() as patch:
        kept = functools.lru_cache(home_notes.measure_machine)
        patch.setattr(home_notes, "measure_machine", kept)
        yield
