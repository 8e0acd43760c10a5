"""One mistake in many waves of a panel is one finding, about the file's column."""

import pandas as pd
import pytest

from dp_core.confidential.sources.frame_source import frame_table
from dp_core.inspection.data_check import check_data
from dp_core.inspection.given_data import FrameData
from tests.schema_texts import read

WAVES = ("2010", "2011", "2012")


def findings(values, again=0):
    """Return what is found in a panel of 40 persons, who take turns with the letters of a wave."""
    schema = read(
        "version: 1\ntitle: t\npanel: {person: id, wave: year, waves: [2010, 2011, 2012]}"
        "\ncolumns:\n  work: {type: category, levels: [x, y]}\n"
    )
    waves = tuple(zip(WAVES, values, strict=True))
    rows = [(str(who), wave, of[who % len(of)]) for who in range(40) for wave, of in waves]
    frame = pd.DataFrame(rows + rows[: again * 3], columns=["id", "year", "work"])
    return check_data([FrameData.of(frame_table(frame))], schema).findings


@pytest.mark.parametrize("persons", [1, 4])
def test_persons_with_several_rows_are_one_finding(persons):
    (finding,) = findings(("xy", "xy", "xy"), again=persons)
    assert finding.message == "In 3 waves, persons have several rows."
    assert {one.text: one.rows for one in finding.examples} == {
        f"wave {wave}": persons for wave in WAVES
    }


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (("x", "x", "x"), "work"),
        (("x", "xy", "xy"), None),
        (("y", "x", "x"), None),  # one value in each wave, but not in the file
    ],
)
def test_advice_to_ignore_a_column_names_the_column_of_the_file(values, column):
    found = [one for one in findings(values) if "ignore" in one.fix]
    assert [one.column for one in found] == ([column] if column else [])
