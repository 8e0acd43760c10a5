"""Two scheduled releases in a row, under kills; the long form is `tests.crashes.scheduled`."""

from __future__ import annotations

import pytest

from tests.crashes.scheduled import run_chaos


@pytest.mark.full
def test_scheduled_releases_are_made_whoever_is_killed(tmp_path, postgres_cluster):
    # By this seed the worker goes with its runs after 14 seconds, the database 28 later.
    chaos, wrong = run_chaos(
        tmp_path, postgres_cluster, releases=2, seed=1292, every=25, interval=15, seconds=900
    )
    assert wrong == [], chaos.site.told()
    assert sum(chaos.killed.values()) >= 1
