"""The file of a noisy result, and the check that all results are as they were committed."""

import hashlib
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dp_core.accounts.plain_entries import result_hash
from dp_core.errors import StageFailed
from tasks.ledger.reservations import Charge
from tasks.ledger.stored_result import prefix_of, read_result, require_as_committed, result_path

RESERVATION = SimpleNamespace(link="ab" * 32, release="town")
VALUES = {4: np.array([[1, -2], [3, 4]]), 5: np.array([7])}
HEADER = {
    "reservation": RESERVATION.link,
    "charges": [4, 5],
    "shapes": [[2, 2], [1]],
    "attempt": 1,
}


def charge(number, result):
    return Charge(number, "measure", f"s{number}", Fraction(1), {}, "measure-0", 1, result)


@pytest.fixture
def stored(tmp_path):
    """Store a result as a release does, and return its file and its charges."""

    def store(header=HEADER, values=VALUES):
        body = prefix_of(header)
        body += b"".join(value.astype("<i8").tobytes() for value in values.values())
        path = result_path(tmp_path, "measure-0")
        path.write_bytes(body + hashlib.sha256(body).digest())
        return path

    return store


CHARGES = [charge(number, result_hash(VALUES.items())) for number in VALUES]


def check(path):
    require_as_committed(path.parent, RESERVATION, CHARGES)


def test_a_result_is_read_as_it_was_stored(stored):
    found = read_result(stored())
    assert found.header == HEADER
    for value, expected in zip(found.values, VALUES.values(), strict=True):
        np.testing.assert_array_equal(value, expected)
    assert found.values_of({**HEADER, "attempt": 7}) is found.values
    assert found.values_of({**HEADER, "charges": [4, 6]}) is None


def test_every_flipped_byte_of_a_result_is_found(stored):
    path = stored()
    whole = path.read_bytes()
    check(path)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(StageFailed, match=r"measure-0\.noise"):
            check(path)


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ({**HEADER, "reservation": "cd" * 32}, VALUES),
        ({**HEADER, "charges": [4, 6]}, VALUES),
        (HEADER, {**VALUES, 5: np.array([8])}),
        (HEADER, {**VALUES, 6: np.array([1])}),
        (HEADER, {4: VALUES[4]}),
        ({**HEADER, "shapes": [[2, 2], [1], [1]]}, VALUES),
        ({**HEADER, "shapes": "none"}, VALUES),
        ({name: HEADER[name] for name in HEADER if name != "reservation"}, VALUES),
    ],
    ids=[
        "another reservation",
        "another charge",
        "another value",
        "more values",
        "fewer values",
        "more shapes",
        "no shapes",
        "no reservation",
    ],
)
def test_a_whole_file_that_no_release_or_another_one_wrote_is_refused(stored, header, values):
    with pytest.raises(StageFailed) as refused:
        check(stored(header, values))
    assert refused.value.row == "committed-result-gone"


def test_a_result_that_is_missing_or_was_never_committed_is_refused(stored, tmp_path):
    with pytest.raises(StageFailed):
        check(tmp_path / "nothing")
    path = stored()
    with pytest.raises(StageFailed):
        require_as_committed(
            path.parent, RESERVATION, [replace(each, result=None) for each in CHARGES]
        )
