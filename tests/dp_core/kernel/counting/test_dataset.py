"""The type of a dataset's codes follows from its domain."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.codes import code_type, stored_type
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.tables.cliques import row_bytes

WIDE = Domain(("area", "a"), (70_000, 3))


@pytest.mark.parametrize(
    ("size", "stored", "kept"),
    [
        (1, np.uint8, np.uint16),
        (256, np.uint8, np.uint16),
        (257, np.uint16, np.uint16),
        (65_536, np.uint16, np.uint16),
        (65_537, np.uint32, np.uint32),
        (2**32, np.uint32, np.uint32),
    ],
)
def test_codes_have_the_narrowest_type_that_numbers_them_all(size, stored, kept):
    assert stored_type(size) == stored
    assert code_type(2, size) == kept
    assert np.iinfo(stored).max >= size - 1


def test_more_than_32_bits_are_refused():
    with pytest.raises(ValueError, match="32 bits"):
        code_type(2**32 + 1)


def test_a_wide_domain_refuses_codes_in_which_an_area_would_be_another_one():
    with pytest.raises(TypeError, match="uint32, not uint16"):
        Dataset(WIDE, np.zeros((2, 5), np.uint16))


def test_a_narrow_domain_takes_its_own_type_and_a_part_of_a_wide_table():
    narrow = WIDE.project(("a",))
    for kind in (np.uint16, np.uint32):
        assert Dataset(narrow, np.zeros((1, 5), kind)).rows == 5
    for kind in (np.uint8, np.int64):
        with pytest.raises(TypeError, match="uint16"):
            Dataset(narrow, np.zeros((1, 5), kind))


def test_the_bytes_of_a_record_are_those_of_its_array():
    for domain in (WIDE, WIDE.project(("a",)), Domain((), ())):
        codes = np.zeros((len(domain), 7), domain.code_type)
        assert row_bytes(domain) * 7 == codes.nbytes
