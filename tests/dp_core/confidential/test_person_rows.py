import itertools
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.confidential.person_rows import RowLimit, hashes, kept_rows, orders
from dp_core.errors import SchemaViolation

ROWS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.integers(0, 200)))


def kept(rows, most):
    """Return the rows of a list of (person, code, code) that are kept, counted."""
    if not rows:
        return Counter()
    persons, bad = hashes("id", pa.array([row[0] for row in rows]), [""])
    assert not bad
    columns = np.array([row[1:] for row in rows], np.uint16).T
    found = kept_rows(persons, orders(persons, columns), most)
    return Counter(row for row, stays in zip(rows, found, strict=True) if stays)


def of(rows, person):
    return [row for row in rows if row[0] == person]


@given(rows=ROWS, most=st.integers(1, 4))
def test_of_every_person_as_many_rows_stay_as_may(rows, most):
    found = kept(rows, most)
    assert not found - Counter(rows)
    for person in "abcdef":
        stay = sum(count for row, count in found.items() if row[0] == person)
        assert stay == min(most, len(of(rows, person)))


@given(rows=ROWS, most=st.integers(1, 4), rng=st.randoms(use_true_random=False))
def test_which_rows_stay_hangs_on_that_person_alone_and_on_no_order(rows, most, rng):
    # Each person alone, in any order, keeps what it keeps among the others.
    apart = Counter()
    for person in "abcdef":
        own = of(rows, person)
        rng.shuffle(own)
        apart += kept(own, most)
    assert apart == kept(rows, most)


@given(rows=ROWS, other=ROWS, most=st.integers(1, 4))
def test_a_person_who_comes_or_is_replaced_changes_that_persons_rows_only(rows, other, most):
    without = [row for row in rows if row[0] != "a"]
    new = [("a", *row[1:]) for row in other]
    before, after = kept(without, most), kept(new + without, most)
    assert not before - after
    assert sum((after - before).values()) == min(most, len(new))
    assert {row[0] for row in after - before} <= {"a"}


def test_no_kind_of_row_is_preferred():
    # Each of 2000 persons has the same ten rows; one stays, and it is not the same one.
    rows = [(f"p{person}", code, 7) for person in range(2000) for code in range(10)]
    codes: Counter[int] = Counter()
    for (_, code, _), count in kept(rows, 1).items():
        codes[code] += count
    # 200 each, standard deviation 13.4; 6 of them.
    assert all(abs(codes[code] - 200) < 81 for code in range(10))


def test_the_limit_on_disk_is_the_limit_in_memory(tmp_path):
    rng = np.random.default_rng(3)
    ids = pa.array([f"p{number}" for number in rng.integers(0, 700, 5000)])
    codes = rng.integers(0, 5, (2, 5000)).astype(np.uint16)
    persons, _ = hashes("id", ids, [""])
    with RowLimit(tmp_path / "persons", 3) as limit:
        for start, stop in itertools.pairwise([0, 1, 1200, 4000, 5000]):
            limit.add(persons[start:stop], codes[:, start:stop])
        found = np.array(limit.kept())
        assert (tmp_path / "persons").stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / "persons").exists()
    assert (found == kept_rows(persons, orders(persons, codes), 3)).all()
    assert 0 < found.sum() < 5000
    for folder in (tmp_path / "persons", None):
        with RowLimit(folder, 3) as limit:
            assert not len(limit.kept())
            limit.add(persons, codes)
            assert (limit.kept() == found).all()


def test_an_identifier_is_its_text_without_blanks_around():
    texts = pa.array(["7", " 7", "07", "8"])
    one, _ = hashes("id", texts, [""])
    assert (one[0] == one[1]).all()
    assert (one[0] == one[2]).all()
    assert not (one[0] == one[3]).any()
    for other in (
        texts.dictionary_encode(),
        pa.array(["x", *texts.to_pylist()]).dictionary_encode()[1:],
        texts.cast(pa.large_string()),
    ):
        assert (hashes("id", other, [""])[0] == one).all()
    numbers, _ = hashes("id", pa.array([7, 7, 8], pa.int32()), [""])
    assert (numbers[[0, 2]] == one[[0, 3]]).all()


@pytest.mark.parametrize("array", [pa.array([None, "", " ", "?", "a"]), pa.array([None] * 5)])
def test_rows_without_an_identifier_are_counted(array):
    found = hashes("id", array.dictionary_encode() if array[4].is_valid else array, ["", "?"])[1]
    assert found == (4 if array[4].is_valid else 5)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(5, 1), pa.int64()])
def test_a_batch_without_an_identifier_or_without_rows_is_no_fault_of_its_type(kind):
    assert hashes("id", pa.nulls(3, kind), [""])[1] == 3
    assert hashes("id", pa.nulls(0, kind), [""])[0].shape == (0, 2)


def test_blanks_around_a_text_that_means_missing_do_not_matter():
    assert hashes("id", pa.array(["?", " ? ", "a"]), [" ?"])[1] == 2


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([True]), "stored as bool"),
        (pa.array([1.0, 1.5]), "stored as double"),
        (pa.array([2.0**53]), "stored as double"),
        (pa.array([2.0**24], pa.float32()), "stored as float"),
        (pa.array([float("inf")]), "stored as double"),
        (pa.array([Decimal("7.50")]), "stored as decimal"),
        *(
            (pa.array(["7", text]), "texts that programs write for")
            for text in ("1.23457E+11", "-inf", "nan", "2026-01-31", "12:30", "True")
        ),
        (pa.array(["7", "9007199254740992.0"]), "texts that programs write for"),
    ],
)
def test_identifiers_that_do_not_tell_persons_apart_are_refused(values, why):
    for stored in (values, values.dictionary_encode()):
        with pytest.raises(
            SchemaViolation, match=rf"'id' identifies persons and .*{why}"
        ) as caught:
            hashes("id", stored, [""])
        assert not any(one in caught.value.message for one in ("7.5", "1.5", "1.23", "9007"))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([7, None, 12345678901]),
        pa.array([7.0, float("nan"), 12345678901.0]),
        pa.array([7.0, None, 12345678901.0]),
        pa.array([Decimal("7.00"), None, Decimal("12345678901.00")]),
        pa.array(["7", "", "12345678901"]),
        pa.array(["7.0", " ", " 12345678901.00 "]),
        pa.array(["007", "", "+012345678901."]),
    ],
)
def test_an_identifier_is_the_same_however_it_is_stored(values):
    expected, missing = hashes("id", pa.array(["7", None, "12345678901"]), [""])
    for stored in (values, values.dictionary_encode()):
        found = hashes("id", stored, [""])
        assert np.array_equal(found[0], expected)
        assert found[1] == missing == 1
