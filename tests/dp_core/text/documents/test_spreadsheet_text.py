"""Texts of CSV files for people: never a formula, never two texts as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.text.documents.spreadsheet_text import spreadsheet_text

SIGNS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


@pytest.mark.parametrize("text", ["-9", "-9.", "-0.25", "-1e-09", "", "0", "a-b", "x=1", "'tis"])
def test_numbers_and_harmless_texts_are_unchanged(text):
    assert spreadsheet_text(text) == text


@given(st.text(alphabet=SIGNS + "' 1a", max_size=5))
def test_only_a_negative_number_begins_with_a_sign(text):
    written = spreadsheet_text(text)

    assert written.endswith(text)
    if written.strip(" ")[:1] and written.strip(" ")[0] in SIGNS:
        assert float(written) <= 0


@given(*[st.text(alphabet=SIGNS + "' 1a", max_size=4)] * 2)
def test_different_texts_stay_different(one, other):
    assert (spreadsheet_text(one) == spreadsheet_text(other)) == (one == other)
