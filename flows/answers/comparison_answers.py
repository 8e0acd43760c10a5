"""The answer of `dp-release compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flows.answers.answer import Answer


@dataclass(frozen=True, slots=True)
class ComparisonAnswer(Answer):
    """The summary that `flows.comparison` writes, as it is."""

    summary: Mapping[str, Any]

    def to_json(self) -> Any:
        """Return the summary."""
        return self.summary
