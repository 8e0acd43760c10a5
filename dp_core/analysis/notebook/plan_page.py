"""A plan in a notebook: what is measured, with which noise, and what each stage may spend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_core.analysis.planned.plan_page import plan_page
from dp_core.analysis.planned.plan_values import plan_values
from dp_core.plan.plan import Plan
from dp_core.schema.privacy import Privacy
from dp_core.text.pages.page import Page
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

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

        rows = (
            {
                **table,
                "columns": ", ".join(table["columns"]),
                "kind": "interaction" if "interaction" in table else "table",
                "margin": table["within"],
            }
            for table in plan_values(self.plan)["tables"]
        )
        return pd.DataFrame(list(rows), columns=_COLUMNS)

    def to_json(self) -> dict[str, Any]:
        """Return the plan's document: the resolved spec, and the budget of each stage."""
        return self.plan.document()

    def page(self) -> Page:
        """Return the cost of each stage, and the tables with their noise."""
        return (*plan_page(plan_values(self.plan)),)


def privacy_words(privacy: Privacy) -> str:
    """Return epsilon, delta and what they protect."""
    return (
        f"epsilon {float(privacy.epsilon):.6g}, delta {float(privacy.delta):.6g}, for"
        f" {privacy.unit_in_words.rstrip(',')} ({privacy.neighbours})"
    )
