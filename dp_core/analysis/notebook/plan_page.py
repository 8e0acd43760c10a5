"""A plan in a notebook: what is measured, with which noise, and what each stage may spend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dp_core.plan.plan import Plan
from dp_core.schema.privacy import PAYING_STAGES, Privacy
from dp_core.text.pages.page import Bars, Fact, Listing, Page, Sentence
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 30
"""Most tables that a plan prints."""
_COLUMNS = ("stage", "columns", "kind", "cells", "noise", "scale", "margin", "tvd")


class PlanPage(Printed):
    """The plan of a release.

    Attributes:
        plan: The plan itself.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def frame(self) -> pd.DataFrame:
        """The tables that are certain to be measured: one row for each.

        `scale` is the parameter of the noise, `margin` half of the width of the 95 % interval of
        the noise of a cell, records, and `tvd` the distance that the noise alone causes (NaN
        without `rows_about` in the schema).
        """
        import pandas as pd

        return pd.DataFrame(list(self._rows()), columns=_COLUMNS)

    def to_json(self) -> dict[str, Any]:
        """Return the plan's document: the resolved spec, and the budget of each stage."""
        return self.plan.document()

    def page(self) -> Page:
        """Return the method, the budget of each stage, and the tables with their noise."""
        spec, rows = self.plan.spec, list(self._rows())
        sets = f"{spec.sets} ({spec.mode})" if spec.sets else "none: noisy tables only"
        shares = [
            (stage, float(spec.shares[stage]))
            for stage in PAYING_STAGES
            if self.plan.costs.get(stage)
        ]
        shown = tuple(
            (
                row["stage"],
                row["columns"] or "(number of rows)",
                f"{row['cells']:,}",
                f"±{row['margin']:,}",
                "–" if row["tvd"] is None else f"{row['tvd']:.4f}",
            )
            for row in rows[:MOST_SHOWN]
        )
        left = len(rows) - len(shown)
        chosen = "" if rows else " The tables to measure are chosen privately."
        return (
            Fact("Plan", f"method {spec.method}, {privacy_words(spec.privacy)}"),
            Fact("Sets", sets),
            Fact("Budget", "; ".join(f"{stage} {share:.1%}" for stage, share in shares) + "."),
            Bars("share of the budget", tuple(shares), percent=True),
            *((Listing(("stage", "columns", "cells", "margin", "TVD"), shown, 2),) if rows else ()),
            *((Sentence(f"... and {left:,} more; .frame has all."),) if left else ()),
            Fact(
                "Noise",
                "margin: 95 % margin of error of one count, in records. TVD: expected distance due"
                " to noise alone"
                f"{'' if spec.schema.rows_about else '; add rows_about to the schema to see it'}."
                f"{chosen}",
            ),
        )

    def _rows(self) -> Iterator[dict[str, Any]]:
        about = self.plan.spec.schema.rows_about
        for table in self.plan.tables:
            yield {
                "stage": table.stage,
                "columns": ", ".join(table.clique),
                "kind": "interaction" if table.interaction else "table",
                "cells": table.cells,
                "noise": table.noise.kind,
                "scale": table.noise.scale,
                "margin": math.ceil(table.noise.half_width),
                "tvd": table.tvd(about) if about and table.clique else None,
            }


def privacy_words(privacy: Privacy) -> str:
    """Return epsilon, delta and what they protect."""
    return (
        f"epsilon {float(privacy.epsilon):.6g}, delta {float(privacy.delta):.6g}, for"
        f" {privacy.unit_in_words.rstrip(',')} ({privacy.neighbours})"
    )
