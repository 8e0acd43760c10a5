"""What fails, in the place of what works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def raising(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    """Return a function that raises an error, whatever it is given."""

    def broken(*_: Any, **__: Any) -> NoReturn:
        raise error

    return broken
