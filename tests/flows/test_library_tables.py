"""What the library reads from real releases is what their files hold."""

from __future__ import annotations

import pandas as pd
import pytest

import dp_core as dp
from dp_core.plan.presets import PRESETS
from tests.flows.test_presets import town as binary_town
from tests.flows.test_presets import write
from tests.full import some

__all__ = ["binary_town"]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]
COUNTS = ("table", "sparse", "cells")
KINDS = ("auto", "mwem", "sbhg")
"""Methods that publish tables, single answers and sparse tables."""


# The town has numbers, which `beta-binomial` does not take; it publishes no tables.
@pytest.mark.parametrize("method", some(sorted({*PRESETS} - {"beta-binomial"}), KINDS.__contains__))
def test_every_published_count_is_in_a_frame_and_every_row_in_a_set(binary_town, method):
    project = binary_town
    write(project, method, sets="sets: 2")
    project.release()
    bundle = dp.read_bundle(project.out)
    file = pd.read_parquet(project.out / "marginals.parquet")
    listed = bundle.tables.frame

    assert listed.index.tolist() == file["table"].unique().tolist()
    assert listed["values"].tolist() == file.groupby("table").size().tolist()
    published = file[file["kind"].isin(COUNTS)]
    found = [
        (row["table"], row["count"], sorted(row[: len(columns)].astype(str)))
        for columns in bundle.tables
        for _, row in bundle.tables[columns].iterrows()
        if listed["kind"][row["table"]] in COUNTS
    ]
    wanted = [
        (row["table"], row["count"], sorted(row["labels"])) for _, row in published.iterrows()
    ]
    assert sorted(found) == sorted(wanted)
    for number, data in enumerate(bundle.sets, start=1):
        raw = pd.read_parquet(project.out / f"synthetic/set-{number}.parquet")
        assert data.isna().equals(raw.isna())
        assert data["sex"].astype(str).tolist() == raw["sex"].astype(str).tolist()
        assert data["income"].equals(raw["income"])
        assert data["moved"].dropna().dt.date.tolist() == raw["moved"].dropna().tolist()
