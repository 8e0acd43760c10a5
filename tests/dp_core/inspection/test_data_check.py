"""One mistake in many waves of a panel is one finding, about the file's column."""

import numpy as np
import pandas as pd
import pytest

from dp_core.confidential.sources.frame_source import frame_table
from dp_core.inspection.advice import yaml_text
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


def of_numbers(values, *, absent=3, rules="", **policy):
    """Return the check of a panel whose first persons are absent in a wave."""
    keys = f", {yaml_text(policy)}" if policy else ""
    schema = read(
        "version: 1\ntitle: t\npanel: {person: id, wave: year, waves: [2010, 2011]}\ncolumns:\n"
        f"  hours: {{type: integer, min: 0, max: 60, bins: 6{keys}}}\n"
        f"  born: {{type: date, min: 2020-01-01, max: 2020-12-31, bins: quarter{keys}}}\n{rules}"
    )
    frame = pd.DataFrame({"id": np.repeat(range(40), 2), "year": [2010, 2011] * 40})
    frame["hours"], frame["born"] = np.arange(80) % 61, "2020-05-01"
    frame = frame.astype({"hours": object})
    for column, place, value in values:
        frame.loc[place, column] = value
    return check_data([FrameData.of(frame_table(frame[2 * absent - 1 :]))], schema)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([("hours", 21, 99)], "out-of-range"),
        ([("hours", 21, None)], "missing"),
        ([("born", 21, None), ("born", 30, None)], "missing"),
        ([("born", 20, "2031-01-01"), ("hours", 31, -1)], "out-of-range"),
    ],
)
def test_an_advice_names_what_is_not_written_and_settles_the_finding(values, kind):
    check = of_numbers(values)
    assert {one.kind for one in check.findings if one.severity == "refusal"} == {kind}
    assert not check.fits
    assert "impossible" not in str(check.findings)
    for one in (each for found in check.findings for each in found.each or (found,)):
        for keys in one.changes:
            after = of_numbers(values, **keys)
            assert not any(
                each.severity == "refusal" and each.column == one.column for each in after.findings
            )


@pytest.mark.parametrize(
    "rule", ["in_2011: yes, hours_2011: missing", "in_2011: yes, hours_2011: [missing]"]
)
def test_a_rule_of_the_schema_about_missing_values_is_not_taken_for_that_of_the_panel(rule):
    check = of_numbers([("hours", 21, None)], rules=f"impossible: [{{{rule}}}]\n", missing="level")
    (refusal,) = (one for one in check.findings if one.severity == "refusal")
    assert refusal.kind == "impossible"


@pytest.mark.parametrize("policy", [{}, {"missing": "level"}])
def test_persons_who_are_absent_are_no_missing_values(policy):
    check = of_numbers([], **policy)
    assert check.fits
    assert not [one for one in check.findings if one.kind == "missing"]
    found = of_numbers([("hours", 21, None), ("hours", 23, None)], missing="level")
    (missing,) = (one for one in found.findings if one.kind == "missing")
    assert (missing.severity, missing.rows, missing.column) == ("settled", 2, "hours_2011")
