"""Posterior sets are drawn from the dependences that were paid for, and from no others."""

import dataclasses
import hashlib
import json

import pytest

from dp_core.errors import StageFailed
from dp_core.methods.selection.selector import Dependences, Selection
from tasks.ledger.stored_result import CHECKSUM_BYTES, read_result, result_path
from tasks.stages.reconstruct import require_committed_dependences
from tests.flows.corpus import lent

project = lent("method: auto\nselect: {at_once: never}\nsynthesize: {sets: 2, mode: posterior}\n")


@pytest.fixture
def made(project):
    """Return what the check needs to know of the release."""
    public = project.run_folder / "public"
    (stored,) = json.loads((public / "selection.json").read_bytes())
    found = stored["dependences"]
    pairs, values = tuple(map(tuple, found["pairs"])), tuple(found["values"])
    asked = Dependences(pairs, values, found["stddev"], found["unit"], tuple(found["added"]))
    ledger = project.ledger()
    reservation = ledger.reservation("town")
    charges = ledger.charges(reservation)

    def check(dependences):
        selection = Selection(dependences=dependences)
        require_committed_dependences(
            [selection], public / "noisy", reservation, charges, public / "selection.json"
        )

    return asked, check


def test_the_dependences_of_a_release_are_those_that_it_committed(made):
    asked, check = made
    check(asked)
    check(None)  # a selection that asked none


@pytest.mark.parametrize("change", ["values", "stddev", "fewer", "unit"])
def test_other_dependences_are_refused(made, change):
    asked, check = made
    changes = {
        "values": {"values": (asked.values[0] + 1, *asked.values[1:])},
        "stddev": {"stddev": asked.stddev / 2},
        "fewer": {"values": asked.values[1:]},
        "unit": {"unit": asked.unit + 1},
    }
    with pytest.raises(StageFailed, match="does not hold the noisy dependences"):
        check(dataclasses.replace(asked, **changes[change]))


def test_a_noisy_result_that_was_written_again_with_its_checksum_is_refused(project, made):
    asked, check = made
    path = result_path(project.run_folder / "public/noisy", "select-0-indif")
    body = bytearray(path.read_bytes()[:-CHECKSUM_BYTES])
    body[-8] ^= 1  # the last value
    path.write_bytes(bytes(body) + hashlib.sha256(body).digest())
    last = read_result(path).values[0].ravel().tolist()
    with pytest.raises(StageFailed, match=r"select-0-indif\.noise"):
        check(dataclasses.replace(asked, values=tuple(last)))
