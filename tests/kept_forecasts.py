"""What `auto` forecasts from a schema is computed once.

Each plan asks for it, a release makes its plan several times, and hundreds of tests release the
same survey. It is a function of the schema and the budget, and took a seventh of these releases.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from dp_core.methods.selection.auto import Auto


@pytest.fixture(scope="session", autouse=True)
def forecasts_are_kept() -> Iterator[None]:
    """Keep the forecasts of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Auto, "forecast", functools.lru_cache(maxsize=500)(Auto.forecast))
        yield
