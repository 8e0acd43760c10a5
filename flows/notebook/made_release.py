"""A release that was made: what `run` and `resume` return."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from dp_core.analysis.notebook.open_bundle import OpenBundle, read_bundle
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Page, Sentence
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
        made, accuracy = self._answer, self._answer["accuracy"]
        rows = "noisy tables only"
        if made["sets"]:
            rows = f"{plural(made['sets'], 'set')} of {made['rows']:,} rows"
        spent = f"{_amount(made['spent'])} ({made['neighbours']}) in {made['charges']} charges"
        if made.get("measurements"):
            spent = f"nothing; the tables of {made['measurements']} were used"
        close = accuracy.get("mean_tvd_to_noisy")
        return (
            Sentence(f"{self.release} is released: {rows}, in {self.seconds:,.0f} s"),
            Fact("Spent", f"{spent}; account {self.account} has {_amount(made['left'])} left."),
            *(
                ()
                if close is None
                else (
                    Fact(
                        "Accuracy",
                        f"mean TVD between sets and noisy tables {close:.4f};"
                        f" {accuracy['mean_expected_tvd']:.4f} is expected from noise and"
                        " sampling.",
                    ),
                )
            ),
            Fact("Bundle", f"{self.out} (.bundle opens it)"),
        )


def _amount(amount: Mapping[str, Any]) -> str:
    """Return an amount of privacy budget in words."""
    named = ((name, amount.get(name)) for name in ("epsilon", "delta", "rho", "own_delta"))
    stated = [(name, float(Fraction(value))) for name, value in named if value is not None]
    return ", ".join(f"{name} {value:.4g}" for name, value in stated)
