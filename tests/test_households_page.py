"""The page of households and persons is walked as it is printed, with a kill in the middle."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.walked_page import ROOT, carried_out, not_printed, texts

PAGE = (ROOT / "docs" / "households.md").read_text(encoding="utf-8")
KILLED = f"""
{sys.executable} -m flows.cli.main "$@" 2> killed.log &
until grep -q "Select tables privately: [0-9]" killed.log; do
  kill -0 $! || break
  sleep 0.1
done
kill -9 $! || true
wait $! || true
cat killed.log >&2
{sys.executable} -m flows.cli.main resume town-2026
"""
"""Kill the run when its tables are selected, and go on as the page says."""


@pytest.mark.full
@pytest.mark.slow
def test_the_page_of_households_can_be_walked_and_its_release_killed(tmp_path: Path) -> None:
    found = carried_out(PAGE, tmp_path, release=KILLED)

    assert found.returncode == 0, found.stderr
    town = tmp_path / "town"
    assert "Publish the bundle" not in (town / "killed.log").read_text()
    shown = texts(PAGE)
    assert len(shown) == 7
    assert not_printed(shown, found) == []
    charges = [
        (each["body"]["stage"], each["body"]["step"])
        for each in json.loads((town / "first" / "release.json").read_bytes())["ledger"]["receipts"]
        if each["kind"] == "charge"
    ]
    assert len(charges) > 30
    assert len(set(charges)) == len(charges)
