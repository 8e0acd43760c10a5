"""Dates as databases and files have them: days, moments, texts of any order, and missing ones."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput, SchemaViolation
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode

DAY = datetime.date(2004, 2, 29)
FORMS = {"%d.%m.%Y": "29.02.2004", "%m/%d/%Y": "02/29/2004", "%Y%m%d": "20040229"}


def schema_of(**keys):
    column = {
        "type": "date",
        "min": "2000-01-01",
        "max": "2009-12-31",
        "bins": "month",
        "missing": "level",
        "missing_values": ["", "9999-12-31"],
        **keys,
    }
    return parse_schema({"version": 1, "title": "t", "columns": {"born": column}})


def moment(unit, zone=None):
    return pa.timestamp(unit, tz=zone)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([DAY, None, datetime.date(9999, 12, 31)], pa.date32()),
        pa.array([DAY, None, datetime.date(9999, 12, 31)], pa.date64()),
        *(
            pa.array(
                [datetime.datetime(2004, 2, 29, 23, 59), None, datetime.datetime(9999, 12, 31, 5)],
                moment(unit),
            )
            for unit in ("s", "ms", "us")
        ),
        # In nanoseconds there is no year 9999.
        pa.array([datetime.datetime(2004, 2, 29, 23, 59), None, None], moment("ns")),
        pa.array(["2004-02-29", None, "9999-12-31"]),
        pa.array(["2004-02-29 23:59:59.5", "", "9999-12-31"]),
        pa.array(["2004-02-29", "", "9999-12-31"]).dictionary_encode(),
    ],
    ids=str,
)
def test_a_day_is_the_same_day_however_it_is_stored(values):
    column = schema_of().column("born")

    found = Encoder(column).encode(values)

    assert found.codes.tolist() == [49, column.missing_code, column.missing_code]
    assert found.bad is None


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "+05:00"])
def test_a_moment_with_a_zone_has_no_day(zone):
    column = schema_of(out_of_range="missing").column("born")
    values = pa.array([datetime.datetime(2004, 2, 29, 22, 30)], moment("us", zone))
    for stored in (values, values.dictionary_encode(), pa.nulls(1, values.type)):
        with pytest.raises(SchemaViolation, match=r"'born' is stored as timestamp.*without a zone"):
            Encoder(column).encode(stored)
    for text in ("2004-02-29 22:30+01:00", "2004-02-29T22:30:00Z", "2004-02-29 22:30:00.5-0500"):
        assert Encoder(column).encode(pa.array([text])).bad is not None


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_another_order_are_read_by_their_format(form):
    schema = schema_of(format=form, missing_values=["", "00.00.0000"])
    column = schema.column("born")
    texts = [FORMS[form], None, "", "00.00.0000", FORMS[form].replace("29", "31"), "2004-02-29"]

    found = Encoder(column).encode(pa.array([f"{FORMS[form]} 00:00:00", *texts]))

    missing = column.missing_code
    # An ISO date is read if the year is first.
    iso = form.startswith("%Y")
    assert found.codes.tolist() == [49, 49, missing, missing, missing, 0, 49 * iso]
    assert found.bad is not None
    assert found.bad.tolist() == [False, False, False, False, False, True, not iso]
    assert parse_schema(schema.document) == schema


def test_a_format_holds_for_bins_that_are_chosen_privately():
    schema = schema_of(format="%d.%m.%Y", bins={"private": "4"})
    column = schema.stored.column("born")

    found = Encoder(column).encode(pa.array(["29.02.2004", "29/02/2004"]))

    assert found.bad is not None
    assert found.bad.tolist() == [False, True]
    assert column.edges[found.codes[0]] == DAY.toordinal()
    assert parse_schema(schema.document) == schema
    with pytest.raises(BadInput, match="%d, %m and %Y"):
        schema_of(format="%d.%m", bins={"private": "4"})


def test_a_day_may_have_one_digit_where_something_stands_between():
    apart = schema_of(format="%d.%m.%Y").column("born")
    together = schema_of(format="%Y%m%d").column("born")

    assert Encoder(apart).encode(pa.array(["1.2.2004", "01.02.2004"])).codes.tolist() == [49, 49]
    found = Encoder(together).encode(pa.array(["20041101", "2004111"]))
    assert found.bad is not None
    assert found.bad.tolist() == [False, True]


def test_a_format_does_not_touch_stored_dates_but_their_sentinel():
    column = schema_of(format="%Y.%m.%d", missing_values=["9999.12.31"]).column("born")

    found = Encoder(column).encode(pa.array([DAY, datetime.date(9999, 12, 31)], pa.date32()))

    assert found.codes.tolist() == [49, column.missing_code]


@pytest.mark.parametrize(("bins", "size"), [("year", 10), ("quarter", 40), ("month", 120)])
def test_every_bin_comes_back_within_itself(bins, size):
    schema = schema_of(bins=bins)
    column = schema.column("born")
    codes = np.tile(np.arange(size + 1, dtype=np.uint16), 50)

    table = decode(schema, Dataset(schema.domain, codes[None]), rng=np.random.default_rng(2))

    assert table.schema.field("born").type == pa.date32()
    assert table["born"].null_count == 50
    assert Encoder(column).encode(table["born"].combine_chunks()).codes.tolist() == codes.tolist()


@pytest.mark.parametrize(
    "form",
    ["%d.%m", "%d.%m.%y", "%d.%m.%Y.%Y", "%d %b %Y", "%H:%M", "mm.yyyy", "DD.MM.YYYY", "%"],
)
def test_a_format_that_names_no_day_is_refused(form):
    with pytest.raises(BadInput, match="%d, %m and %Y once each"):
        schema_of(format=form)


@pytest.mark.parametrize("form", ["%Y-%d-%m", "%Y/%d/%m", "%Y-1%m-%d", "%Y-0%d-0%m"])
def test_a_format_that_reads_iso_dates_as_other_days_is_refused(form):
    with pytest.raises(BadInput, match="reads 2026-02-01 otherwise"):
        schema_of(format=form)
    assert schema_of(format="%Y-%m-%d").column("born").format == "%Y-%m-%d"
