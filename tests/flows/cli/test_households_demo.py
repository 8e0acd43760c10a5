"""`dp-release demo --households`: generated households and persons, released and asked."""

from __future__ import annotations

import gzip
import shlex
from importlib import resources
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.households import write
from dp_core.bundle.verification.verify import verify
from dp_core.schema.reading.schema_file import load_schema
from flows.cli.actions.demo_job import HOUSEHOLDS, prepare_demo
from tasks.run.home import open_ledger

SHIPPED = resources.files("flows.demo")


def shipped():
    """Return the two tables of the demo."""
    with resources.as_file(SHIPPED) as folder:
        return [pd.read_csv(folder / name) for name in HOUSEHOLDS.data]


def test_the_shipped_files_are_those_that_the_generator_writes(tmp_path):
    write(tmp_path)
    for name in HOUSEHOLDS.data:
        there = (SHIPPED / name).read_bytes()
        assert gzip.decompress(there) == gzip.decompress((tmp_path / name).read_bytes())
        assert len(there) < 60_000


def test_every_shipped_person_belongs_to_a_household_and_obeys_the_rules():
    homes, persons = shipped()
    assert homes["household"].is_unique
    assert set(persons["household"]) == set(homes["household"])
    assert not ((persons["age"] < 16) & (persons["job"] > 0)).any()
    sizes = persons.groupby("household").size()
    alone = persons["household"].isin(sizes.index[sizes == 1])
    assert persons.loc[alone, "age"].min() >= 16
    # One household is larger than `max_members`: the demo shows `larger: clip`.
    with resources.as_file(SHIPPED) as folder:
        linked = load_schema(folder / "households.schema.yaml").linked
    assert sizes.max() > linked.max_members
    assert linked.larger == "clip"


def test_the_account_of_the_demo_protects_households(tmp_path):
    fresh, spec = prepare_demo(tmp_path, HOUSEHOLDS)
    assert spec.is_file()
    (opened,) = open_ledger(fresh).entries(kinds=("open",))
    assert (opened.receipt.account, opened.body["unit"]) == ("households", "household")


@pytest.mark.slow
def test_the_demo_makes_a_bundle_and_its_next_commands_answer(command):
    made = command("demo", "--households", "--out", "bundle")
    assert made.code == 0, made.err
    assert "households with" in made.out
    tried = [
        shlex.split(line.removeprefix("Try"))
        for line in made.out.splitlines()
        if line.startswith("Try ")
    ]
    assert len(tried) == len(HOUSEHOLDS.questions)
    assert [check.name for check in verify(Path(tried[0][2])).checks if not check.passed] == []
    for _, *words in tried:
        answered = command(*words)
        assert answered.code == 0, answered.err
