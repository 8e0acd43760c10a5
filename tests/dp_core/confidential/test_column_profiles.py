from fractions import Fraction

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.confidential.encoding import Encoder
from dp_core.schema.definition import Column, Level

EDGES = tuple(Fraction(edge) for edge in ("0", "0.5", "3"))
WHOLE = tuple(Fraction(edge) for edge in (0, 1, 4))
COLUMNS = [
    Column(name="x", kind="number", edges=EDGES, minimum=EDGES[0], maximum=EDGES[-1]),
    Column(name="i", kind="integer", edges=WHOLE, minimum=Fraction(0), maximum=Fraction(3)),
    Column(name="c", kind="category", levels=(Level("0", "no"), Level("1", "yes"))),
]
CELLS = st.sampled_from(["0", "1", "3", "3.5", "-1", "x", "", None])


@given(cells=st.lists(CELLS, max_size=30), cut=st.integers(0, 30), encoded=st.booleans())
@settings(deadline=None, max_examples=40)
def test_a_profile_finds_the_problems_that_encoding_finds_however_it_was_cut(cells, cut, encoded):
    values = pa.array(cells, pa.string())
    for column in COLUMNS:
        profile = Profile()
        for part in (values[:cut], values[cut:]):
            Profiler(column).add(profile, part.dictionary_encode() if encoded else part)
        assert dict(profile.problems) == dict(Encoder(column).encode(values).problems)
        assert profile.rows == len(cells)


@given(st.lists(st.integers(-5000, 5000).map(lambda n: n / 1000) | st.none(), max_size=20))
@settings(deadline=None, max_examples=25)
def test_bounds_are_those_of_the_values(numbers):
    profile = Profile()
    for number in numbers:
        Profiler(COLUMNS[0]).add(profile, pa.array([number], pa.float64()))
    present = [number for number in numbers if number is not None]
    assert profile.low == min(present, default=None)
    assert profile.high == max(present, default=None)
