"""A release that was made: what `run` and `resume` return."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from dp_core.analysis.notebook.open_bundle import OpenBundle, read_bundle
from dp_core.text.pages.page import Page, Sentence
from dp_core.text.pages.printed import Printed


class MadeRelease(Printed):
    """A published release: what it cost, and its bundle.

    Attributes:
        release: Name of the release.
        account: Account that paid.
        out: Folder of the bundle.
        seconds: Seconds that this call took.
        bundle: The opened bundle.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """Take the answer of `dp-release run --json`."""
        self._answer = dict(answer)
        self.release: str = answer["release"]
        self.account: str = answer["account"]
        self.out = Path(answer["out"])
        self.seconds: float = answer["seconds"]

    @cached_property
    def bundle(self) -> OpenBundle:
        """The bundle, opened and verified when it is first used."""
        return read_bundle(self.out)

    def to_json(self) -> dict[str, Any]:
        """Return the answer of `dp-release run --json`."""
        return dict(self._answer)

    def page(self) -> Page:
        """Return what was released, what it cost, and where it is."""
        from flows.answers.amounts import AccountAbove, PrivacyAmount
        from flows.answers.release_answers import published_page

        amounts = {name: PrivacyAmount.of(self._answer[name]) for name in ("spent", "left")}
        above = self._answer["above"]
        if above is not None:
            left = PrivacyAmount.of(above)
            above = AccountAbove(above["account"], above["composition"], left)
        page = published_page({**self._answer, **amounts, "above": above})
        return (*page, Sentence("`.bundle` opens the bundle."))
