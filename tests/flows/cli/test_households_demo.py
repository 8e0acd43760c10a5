"""`dp-release demo --households`: generated households and persons, released and asked."""

import gzip
import shlex
from importlib import resources
from pathlib import Path

import pytest

from benchmarks.households import write
from dp_core.bundle.verification.verify import verify
from flows.cli.actions.demo_job import HOUSEHOLDS, prepare_demo
from tasks.run.home import open_ledger

SHIPPED = resources.files("flows.demo")


def test_the_shipped_files_are_those_that_the_generator_writes(tmp_path):
    write(tmp_path)
    for name in HOUSEHOLDS.data:
        there = (SHIPPED / name).read_bytes()
        assert gzip.decompress(there) == gzip.decompress((tmp_path / name).read_bytes())
        assert len(there) < 60_000


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
