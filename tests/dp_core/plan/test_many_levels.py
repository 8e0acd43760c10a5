"""What a plan says about columns with very many levels for their file."""

from __future__ import annotations

import pytest

from dp_core.methods import registry
from dp_core.plan.forecast.many_levels import many_levels
from dp_core.schema.reading.schema_file import load_schema, parse_schema

CODES = [f"k{at}" for at in range(2000)]


def schema_of(rows, code=None, **others):
    code = code or {"type": "category", "levels": CODES}
    columns = {"code": code, "few": {"type": "category", "levels": ["a", "b"]}} | others
    stated = {} if rows is None else {"rows_about": rows}
    return parse_schema({"version": 1, "title": "t", "columns": columns} | stated)


def named(schema, method="auto"):
    return [*many_levels(schema, registry.find("selection", method)())]


@pytest.mark.parametrize(("rows", "number"), [(19_999, 1), (20_000, 0), (None, 0), (1, 1)])
def test_a_column_is_named_if_it_has_fewer_than_ten_rows_for_each_level(rows, number):
    assert len(named(schema_of(rows))) == number


def test_merged_levels_numbers_and_few_levels_are_not_named():
    merged = {
        "type": "category",
        "levels": {"private": 1500, "rest": "drawn"},
        "groups": {"all": CODES},
    }
    assert not named(schema_of(100, merged))
    assert not named(schema_of(100, {"type": "category", "levels": CODES[:999]}))
    assert not named(schema_of(100, {"type": "integer", "min": 0, "max": 4999, "bins": 5000}))


def test_the_advice_is_a_schema_that_is_accepted(tmp_path):
    """Levels that the schema lists need groups; a code list has its own."""
    (listed,) = named(schema_of(5000))
    assert "`levels: {private: 200, rest: drawn}`" in listed.in_words
    assert "`groups: {codes: [...]}`" in listed.in_words
    levels = {"private": 200, "rest": "drawn"}
    followed = {"type": "category", "levels": levels, "groups": {"codes": CODES}}
    assert not named(schema_of(5000, followed))

    text = "version: 1\ntitle: t\nrows_about: 5000\ncolumns:\n  code: {type: category, codes: c.csv"
    (tmp_path / "c.csv").write_text("code,label\n" + "".join(f"{code},{code}\n" for code in CODES))
    (tmp_path / "s.yaml").write_text(text + "}\n")
    (in_file,) = named(load_schema(tmp_path / "s.yaml"))
    assert "`levels: {private: 200, rest: drawn}`" in in_file.in_words
    assert "groups" not in in_file.in_words
    (tmp_path / "s.yaml").write_text(text + ", levels: {private: 200, rest: drawn}}\n")
    assert not named(load_schema(tmp_path / "s.yaml"))


def test_it_says_with_which_columns_it_is_never_measured():
    town = {"type": "category", "levels": [f"t{at}" for at in range(600)]}
    (found,) = named(schema_of(5000, town=town))
    assert (found.levels, found.rows_per_level, found.never_with) == (2000, 2.5, ("town",))
    assert "Its tables with town are too large and are never measured." in found.in_words
    (alone,) = named(schema_of(5000, town=town), "one_way")
    assert alone.never_with == ()
    assert "never measured" not in alone.in_words
    many = {f"t{at}": town for at in range(8)}
    (found,) = named(schema_of(5000, **many))
    assert "with t0, t1, t2, t3, t4 and 3 more columns are" in found.in_words
