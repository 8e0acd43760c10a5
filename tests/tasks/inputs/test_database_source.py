"""Tables of databases as source: every value exactly, one moment, and nothing of the URL told."""

import datetime
import os
import re
import uuid
from decimal import Decimal
from types import SimpleNamespace

import psycopg
import pytest
import sqlalchemy as sa

from dp_core.confidential.coding import write_codes
from dp_core.confidential.source import keyed_digest
from dp_core.errors import BadInput, StageFailed
from dp_core.plan.data_location import parse_table
from dp_core.schema.reading.schema_file import parse_schema
from flows.cli.actions.drafting import draft
from tasks.inputs import database_source
from tasks.inputs.database_connection import reading
from tasks.inputs.database_source import table_sources
from tasks.inputs.open_input import open_input
from tasks.inputs.snapshot import NAME
from tests.databases import MARKER, VARIABLE, postgres_database, sqlite_database

KEY = b"0123456789abcdef"
CANARY = "zq7canary"
DAY = datetime.date(2007, 12, 25)
MOMENT = datetime.datetime(2007, 12, 25, 23, 59, 59, 123456)


def read(folder, columns, table="persons", ignore=()):
    folder.mkdir(exist_ok=True)
    (source,) = table_sources([(parse_table(VARIABLE, table), columns, list(ignore), folder)])
    return source


def rows_of(source):
    return [tuple(row.values()) for b in source.batches() for row in b.records.to_pylist()]


def refused(folder, columns=("a",), table="persons", ignore=(), kind=BadInput):
    """Return the error of a refusal, after which nothing is left; no secret is in it."""
    with pytest.raises(kind) as caught:
        read(folder, columns, table, ignore)
    error = caught.value
    told = error.message + str(error.internal or "") * (kind is StageFailed)
    for secret in (MARKER, CANARY, "5432", "postgres:", str(folder.parent)):
        assert secret not in told
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert len(error.message) < 420
    assert list(folder.iterdir()) == []
    return error


def refusal(folder, *words, **named):
    """Return the sentence of a refusal."""
    return refused(folder, *words, **named).message


@pytest.fixture
def in_postgres(postgres_url, monkeypatch):
    """An empty PostgreSQL database, which SURVEY_DB names."""
    database = postgres_database(postgres_url)
    monkeypatch.setenv(VARIABLE, database.url)
    return database


@pytest.fixture
def in_sqlite(tmp_path, monkeypatch):
    """An empty SQLite database, which SURVEY_DB names."""
    database = sqlite_database(tmp_path)
    monkeypatch.setenv(VARIABLE, database.url)
    return database


@pytest.fixture
def reader(postgres_server, postgres_url, monkeypatch):
    """A database that SURVEY_DB opens as a role which may do nothing yet, and the role's name."""
    role = f"reader_{uuid.uuid4().hex[:8]}"
    database = postgres_database(postgres_url)
    database.run(f"CREATE ROLE {role} LOGIN")
    monkeypatch.setenv(VARIABLE, database.url.replace("postgres:", f"{role}:"))
    yield database, role
    postgres_server.start()
    database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_every_type_survives_exactly(survey_database, tmp_path):
    survey_database.run(
        "CREATE TABLE persons (i bigint, f double precision, n numeric(10, 2), u numeric,"
        " t text, d date, s timestamp, b boolean)"
    )
    rows = [
        (
            *(2**63 - 1, 0.1, Decimal("12345678.90"), Decimal("1.0000000000000000000000001")),
            *("é\n\t\"'\\;--", DAY, MOMENT, True),
        ),
        (-(2**63), float("inf"), Decimal("-0.01"), Decimal("1E+3"), "", None, None, False),
        (None, -5e-324, None, None, None, datetime.date(1, 1, 1), None, None),
        (0, None, Decimal(0), Decimal("0.10"), "NULL", datetime.date(9999, 12, 31), None, None),
    ]
    plain = [
        tuple(
            str(v)
            if isinstance(v, (Decimal, datetime.date)) and survey_database.kind == "sqlite"
            else v
            for v in row
        )
        for row in rows
    ]
    survey_database.insert("persons", plain)
    columns = ["b", "i", "f", "n", "u", "t", "d", "s"]
    found = rows_of(read(tmp_path / "run", columns))
    digits = ["1.0000000000000000000000001", "1000", None, "0.10"]
    if survey_database.kind == "sqlite":  # which keeps decimals as binary64
        digits = ["1", "1000", None, "0.1"]
    for row, given, u in zip(found, rows, digits, strict=True):
        i, f, n, _, t, d, s, b = given
        assert row[:3] == (b, i, f)
        assert row[3] is n is None or Decimal(row[3]) == n
        assert row[4] == u
        if survey_database.kind == "sqlite":  # which has no such types
            d, s = (None if time is None else str(time) for time in (d, s))
        assert row[5:] == (t, d, s)


def test_what_only_one_of_them_has_survives_too(in_postgres, tmp_path):
    some = uuid.uuid4()
    in_postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN grade AS smallint CHECK (VALUE BETWEEN 1 AND 6)",
        "CREATE TABLE persons (r real, f double precision, n numeric(5, 1), u numeric, c char(5),"
        " v varchar(9), m mood, g grade, z timestamptz, id uuid)",
        "INSERT INTO persons VALUES (0.33333334, 'NaN', 'NaN', 'NaN', 'ab', 'ab  ', 'happy', 6,"
        f" '2007-12-25 23:30-02', '{some}'), (NULL, '-Infinity', 1, 'Infinity', NULL, NULL, NULL,"
        " NULL, NULL, NULL)",
        # A role's own settings would cut floats short, and shift times.
        "ALTER ROLE postgres SET extra_float_digits = 0",
        "ALTER ROLE postgres SET TimeZone = 'Asia/Tokyo'",
    )
    try:
        columns = ["r", "f", "n", "u", "c", "v", "m", "g", "z", "id"]
        first, second = rows_of(read(tmp_path / "run", columns))
    finally:
        in_postgres.run("ALTER ROLE postgres RESET ALL")
    assert first[0] == 0.33333334
    assert first[1] != first[1]
    assert first[2:] == (
        *(None, None, "ab", "ab  ", "happy", 6),
        datetime.datetime(2007, 12, 26, 1, 30, tzinfo=datetime.UTC),
        str(some),
    )
    assert second == (None, float("-inf"), Decimal("1.0"), "1e999", *[None] * 6)


def test_names_are_taken_letter_for_letter(survey_database, tmp_path):
    names = ["a b", "per%cent", 'quo"te', ":colon", "SELECT", "Größe", "semi;--", "%(x)s", "{0}"]
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    declared = ", ".join(f"{name} integer" for name in quoted)
    table = '"Per;sons.""x"" %"'
    percent = "%" if survey_database.kind == "sqlite" else "%%"  # as the drivers want it
    survey_database.run(f"CREATE TABLE {table} ({declared})".replace("%", percent))
    values = ", ".join(map(str, range(len(names))))
    survey_database.run(f"INSERT INTO {table} VALUES ({values})".replace("%", percent))
    source = read(tmp_path / "run", names[::-1], table)
    assert rows_of(source) == [tuple(range(len(names)))[::-1]]
    assert "Did you mean" in refusal(tmp_path / "other", names, '"Per;son.""x"" %"')


def test_a_name_is_never_sql(survey_database, tmp_path):
    survey_database.run("CREATE TABLE persons (a integer)", "INSERT INTO persons VALUES (1)")
    for number, name in enumerate(
        [
            "persons; DROP TABLE persons",
            "persons WHERE 1=1",
            "(SELECT 1 AS a)",
            "persons/**/",
            "x' OR '1'='1",
            "generate_series(1, 5)",
            "public.persons--",
            '"persons; DROP TABLE persons"',
        ]
    ):
        folder = tmp_path / str(number)
        assert "has no table or view" in refusal(folder, table=name), name
        assert rows_of(read(folder, ["a"])) == [(1,)], name


@pytest.mark.parametrize(
    "name", ['per"sons', "a.b.c", "", ".", "a.", 'x"; DROP TABLE y; --', "a\nb"]
)
def test_what_is_no_name_is_refused_before_anything_is_opened(name):
    with pytest.raises(ValueError, match=r"table"):
        parse_table(VARIABLE, name)


def test_views_are_read(survey_database, tmp_path):
    survey_database.run(
        "CREATE TABLE persons (a integer, secret text)",
        "INSERT INTO persons VALUES (1, 'x'), (2, 'y')",
        "CREATE VIEW grown AS SELECT a FROM persons WHERE a > 1",
    )
    assert rows_of(read(tmp_path / "run", ["a"], "grown")) == [(2,)]


def test_schemas_are_told_apart(in_postgres, tmp_path):
    in_postgres.run(
        "CREATE TABLE persons (a integer)",
        "CREATE SCHEMA survey",
        "CREATE TABLE survey.persons (a integer)",
        "CREATE MATERIALIZED VIEW survey.counted AS SELECT 7 AS a",
        "INSERT INTO persons VALUES (1)",
        "INSERT INTO survey.persons VALUES (2)",
    )
    assert rows_of(read(tmp_path / "1", ["a"])) == [(1,)]
    assert rows_of(read(tmp_path / "2", ["a"], "survey.persons")) == [(2,)]
    assert rows_of(read(tmp_path / "3", ["a"], "survey.counted")) == [(7,)]
    assert "Did you mean 'survey.persons'?" in refusal(tmp_path / "4", table="surway.persons")


def test_only_wanted_columns_leave_the_database(reader, tmp_path):
    database, role = reader
    database.run(
        "CREATE TABLE persons (a integer, name text, b integer)",
        "INSERT INTO persons VALUES (1, 'x', 2)",
        # May not read the name: then nothing that reads it would get through.
        f"GRANT SELECT (a, b) ON persons TO {role}",
    )
    assert rows_of(read(tmp_path / "run", ["b", "a"], ignore=["name"])) == [(2, 1)]


@pytest.mark.runbook("data-empty")
def test_columns_are_checked_as_those_of_files(survey_database, tmp_path, says):
    survey_database.run("CREATE TABLE persons (a integer, b integer)")
    assert "'c'" in refusal(tmp_path / "run", ["a", "c"])
    # Which one it is, only the internal folder says.
    found = refusal(tmp_path / "run", ["a"])
    assert "has a column that the schema does not describe" in found
    assert "'b'" not in found
    says(refused(tmp_path / "run", ["a"], ignore=["b"]))


def test_a_type_that_is_not_read_is_named(survey_database, tmp_path):
    survey_database.run(
        "CREATE TABLE persons (a integer, w time)", "INSERT INTO persons (a) VALUES (1)"
    )
    sentence = refusal(tmp_path / "run", ["a", "w"])
    assert sentence.startswith("Column 'w' of table 'persons' has the type TIME, ")
    assert rows_of(read(tmp_path / "run", ["a"], ignore=["w"])) == [(1,)]


@pytest.mark.parametrize("kind", ["bytea", "integer[]", "interval", "json", "point", "money"])
def test_types_of_postgresql_that_are_not_read(in_postgres, tmp_path, kind):
    in_postgres.run(f"CREATE TABLE persons (a {kind})", "INSERT INTO persons VALUES (NULL)")
    assert " has the type " in refusal(tmp_path / "run")


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("integer", CANARY),
        ("integer", 3.5),
        ("real", CANARY),
        ("numeric", b"7"),
        ("text", CANARY.encode()),
        ("date", b"2026-01-31"),
        ("timestamp", CANARY.encode()),
        ("boolean", 2),
    ],
)
@pytest.mark.runbook("database-values")
def test_a_value_of_another_type_than_declared_is_refused(
    in_sqlite, tmp_path, says, declared, value
):
    in_sqlite.run(f"CREATE TABLE persons (a {declared})")
    in_sqlite.insert("persons", [(None,), (value,)])
    error = refused(tmp_path / "run")
    says(error)
    assert "Column 'a' of table 'persons' holds a value" in error.message


@pytest.mark.parametrize("value", ["infinity", "0044-03-15 BC", "12026-01-01"])
def test_a_day_beyond_the_calendar_is_refused(in_postgres, tmp_path, value):
    in_postgres.run("CREATE TABLE persons (a date)", f"INSERT INTO persons VALUES ('{value}')")
    assert "cannot be read, such as a day" in refusal(tmp_path / "run")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "The environment variable SURVEY_DB is not set; "),
        (f"reader:{MARKER}@host/db", "does not hold the URL of a database"),
        (f"postgresql://u:{MARKER}@host:port/db", "does not hold the URL of a database"),
        (f"{MARKER}://u@host/db", "No driver is installed"),
        (f"postgresql+{MARKER}://u@host/db", "No driver is installed"),
        (f"postgresql://u:{MARKER}@127.0.0.1:1/{MARKER}", "refuses the connection"),
        (f"postgresql://u:{MARKER}@/db?host=/no/such/{MARKER}", "has no server that listens"),
        (f"postgresql://u:{MARKER}@/db?{MARKER}=1", "does not answer; check the URL"),
        (f"sqlite:////no/such/{MARKER}.db", "is a file that does not exist or may not be read"),
    ],
)
def test_what_is_wrong_on_the_way_there_is_said_without_the_url(tmp_path, monkeypatch, url, says):
    if url is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, url)
    folder = tmp_path / "run"
    assert says in refusal(folder)


def test_a_file_that_is_no_database_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.db").write_text(f"{CANARY}\n" * 200)
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path}/x.db")
    assert "is not a database file" in refusal(tmp_path / "run")


@pytest.mark.runbook("database-right")
def test_who_may_not_read_is_told_what_to_grant(reader, tmp_path, says):
    database, role = reader
    database.run("CREATE SCHEMA survey", "CREATE TABLE survey.persons (a integer)")
    says(refused(tmp_path / "run", table="survey.persons"))
    told = "may not read table 'survey.persons'. Ask its owner to grant SELECT"
    assert told in refusal(tmp_path / "run", table="survey.persons")
    database.run(f"GRANT SELECT ON survey.persons TO {role}")
    assert told in refusal(tmp_path / "run", table="survey.persons")
    database.run(f"GRANT USAGE ON SCHEMA survey TO {role}")
    assert "no rows" in refusal(tmp_path / "run", table="survey.persons")


def test_nothing_can_be_written_by_what_is_read(in_postgres, tmp_path):
    in_postgres.run(
        "CREATE TABLE kept (a integer)",
        "CREATE FUNCTION spoil() RETURNS integer LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO kept VALUES (1); RETURN 1; END'",
        "CREATE VIEW persons AS SELECT spoil() AS a",
    )
    assert "(InternalError, 25006)" in refusal(tmp_path / "run", kind=StageFailed)


def moved_rows(number):
    return [(n, f"t{n % 7}") for n in range(number)]


def interrupted_after(monkeypatch, chunks, what):
    """Let something happen once, when so many chunks were read."""
    done = []
    array = database_source.Stored.array

    def counting(self, values):
        done.append(len(values))
        if len(done) == chunks:
            what()
        return array(self, values)

    monkeypatch.setattr(database_source.Stored, "array", counting)
    monkeypatch.setattr(database_source, "CHUNK_ROWS", 10)
    return done


def test_one_moment_is_read_whatever_is_written_meanwhile(in_postgres, tmp_path, monkeypatch):
    in_postgres.run("CREATE TABLE persons (a integer, t text)")
    in_postgres.insert("persons", moved_rows(100))

    def write():
        in_postgres.run("UPDATE persons SET a = -1", "INSERT INTO persons VALUES (1000, 'x')")

    def level(connection):
        return connection.exec_driver_sql("SHOW transaction_isolation").scalar()

    assert reading(parse_table(VARIABLE, "persons"), level) == "repeatable read"
    done = interrupted_after(monkeypatch, 3, write)
    assert sorted(rows_of(read(tmp_path / "run", ["a", "t"]))) == moved_rows(100)
    assert max(done) == 10
    assert len(rows_of(read(tmp_path / "later", ["a", "t"]))) == 101


def test_postgresql_keeps_the_rows_until_they_are_fetched(in_postgres, tmp_path):
    in_postgres.run("CREATE TABLE persons (a integer, t text)")
    in_postgres.insert("persons", moved_rows(3))
    cursors = []

    @sa.event.listens_for(sa.Engine, "before_cursor_execute")
    def look(_connection, cursor, statement, *_):
        cursors.append((statement, isinstance(cursor, psycopg.ServerCursor)))

    try:
        read(tmp_path / "run", ["a", "t"])
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", look)
    assert [(text, True) for text, _ in cursors if '"persons"' in text] == cursors[-1:]


END_SESSIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database()"
)


@pytest.mark.runbook("database-lost")
@pytest.mark.parametrize("lost", ["server", "session"])
def test_a_lost_connection_can_be_resumed(
    postgres_server, in_postgres, tmp_path, monkeypatch, says, lost
):
    in_postgres.run("CREATE TABLE persons (a integer, t text)")
    in_postgres.insert("persons", moved_rows(5000))
    lose = postgres_server.stop if lost == "server" else lambda: in_postgres.run(END_SESSIONS)
    interrupted_after(monkeypatch, 3, lose)
    says(refused(tmp_path / "run", ["a", "t"], kind=StageFailed))
    postgres_server.start()
    assert len(rows_of(read(tmp_path / "run", ["a", "t"]))) == 5000


def table_of(database, rows, table="persons"):
    database.run(
        f"CREATE TABLE {table} (a integer, f double precision, n numeric(10, 2), t text, d date,"
        " b boolean)"
    )
    lite = database.kind == "sqlite"
    database.insert(
        table,
        [
            tuple(str(v) if lite and isinstance(v, (Decimal, datetime.date)) else v for v in row)
            for row in rows
        ],
    )


ROWS = [
    (n, n / 7, Decimal(n) / 4, f"t{n % 5}", DAY + datetime.timedelta(days=n), n % 2 == 0)
    for n in range(40)
]
COLUMNS = ["a", "f", "n", "t", "d", "b"]


def digest(folder, columns=COLUMNS, table="persons", key=KEY):
    return keyed_digest(read(folder, columns, table), key)


def test_the_same_rows_are_the_same_input_in_any_order_and_any_database(
    tmp_path, postgres_url, monkeypatch
):
    (tmp_path / "other").mkdir()
    lite, other, server = (
        sqlite_database(tmp_path),
        sqlite_database(tmp_path / "other"),
        postgres_database(postgres_url),
    )
    table_of(lite, ROWS)
    table_of(other, ROWS[::-1])
    table_of(server, ROWS[20:] + ROWS[:20])
    found = []
    for number, database in enumerate((lite, other, server)):
        monkeypatch.setenv(VARIABLE, database.url)
        found.append(digest(tmp_path / f"run{number}"))
        found.append(digest(tmp_path / f"columns{number}", COLUMNS[::-1]))
    assert len(set(found)) == 1
    assert re.fullmatch("[0-9a-f]{64}", found[0])
    assert digest(tmp_path / "key", key=KEY[::-1]) != found[0]


def test_another_row_is_another_input(in_sqlite, tmp_path, monkeypatch):
    monkeypatch.setattr("dp_core.confidential.row_digest.BLOCK_ROWS", 7)
    row = list(ROWS[3])
    changes = [
        *([*row[:place], None, *row[place + 1 :]] for place in range(len(row))),
        [row[0] + 1, *row[1:]],
        [row[0], row[1] + 1e-16, *row[2:]],
        [*row[:2], Decimal("0.76"), *row[3:]],
        [*row[:3], "t3 ", *row[4:]],
        [*row[:3], "0.75", *row[4:]],
        [*row[:5], not row[5]],
        [row[0], 0.75, Decimal("0.43"), *row[3:]],
        [row[0], 0.43, Decimal("0.75"), *row[3:]],  # the same values, elsewhere
    ]
    tables = [ROWS, ROWS[:-1], [*ROWS, ROWS[0]], [*ROWS, ROWS[1]]]
    tables += [[*ROWS[:3], change, *ROWS[4:]] for change in changes]
    # Two values change places between rows: every column has the same values.
    first, second = ROWS[3], ROWS[4]
    tables.append([*ROWS[:3], (*first[:3], *second[3:]), (*second[:3], *first[3:]), *ROWS[5:]])
    found = set()
    for number, rows in enumerate(tables):
        table_of(in_sqlite, rows, f"persons{number}")
        found.add(digest(tmp_path / f"run{number}", table=f"persons{number}"))
    assert len(found) == len(tables)


def test_a_column_s_name_is_part_of_the_input(in_sqlite, tmp_path):
    in_sqlite.run(
        "CREATE TABLE x (a integer)", "INSERT INTO x VALUES (1)",
        "CREATE TABLE y (b integer)", "INSERT INTO y VALUES (1)",
    )  # fmt: skip
    assert digest(tmp_path / "1", ["a"], "x") != digest(tmp_path / "2", ["b"], "y")


def test_a_snapshot_is_for_its_owner_only_and_is_read_instead_of_the_table(
    survey_database, tmp_path, monkeypatch
):
    survey_database.run("CREATE TABLE persons (a integer, t text)")
    survey_database.insert("persons", moved_rows(30))
    monkeypatch.setattr("tasks.inputs.snapshot.GROUP_ROWS", 4)
    monkeypatch.setattr("tasks.inputs.snapshot.PART_ROWS", 8)
    monkeypatch.setattr(database_source, "CHUNK_ROWS", 4)
    before = os.umask(0)
    try:
        source = read(tmp_path / "run", ["a", "t"])
    finally:
        os.umask(before)
    files = sorted((tmp_path / "run" / NAME).iterdir())
    assert [file.name for file in files[:2]] == ["part-00001.parquet", "part-00002.parquet"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert files[0].parent.stat().st_mode & 0o777 == 0o700
    assert len(source.files) == 4
    first = keyed_digest(source, KEY)
    survey_database.run("DROP TABLE persons")
    monkeypatch.delenv(VARIABLE)
    again = read(tmp_path / "run", ["a", "t"])
    assert sorted(rows_of(again)) == moved_rows(30)
    assert keyed_digest(again, KEY) == first


@pytest.mark.parametrize("harm", ["cut", "gone", "garbled", "columns", "table"])
def test_a_snapshot_that_will_not_do_is_taken_again(in_sqlite, tmp_path, harm):
    in_sqlite.run(
        "CREATE TABLE persons (a integer, t text)", "CREATE TABLE others AS SELECT * FROM persons"
    )
    in_sqlite.insert("persons", moved_rows(30))
    in_sqlite.insert("others", moved_rows(20))
    read(tmp_path / "run", ["a", "t"])
    part = tmp_path / "run" / NAME / "part-00001.parquet"
    columns, table = ["a", "t"], "persons"
    if harm == "cut":
        part.write_bytes(part.read_bytes()[:-1])
    elif harm == "gone":
        part.unlink()
    elif harm == "garbled":
        part.write_bytes(bytes(part.stat().st_size))
    elif harm == "columns":
        columns = ["t", "a"]
    else:
        table = "others"
    (tmp_path / "run" / f"{NAME}-old.tmp").mkdir()
    source = read(tmp_path / "run", columns, table)
    assert len(rows_of(source)) == (20 if table == "others" else 30)
    assert source.columns == tuple(columns)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [NAME]


def test_a_draft_of_a_table_looks_at_no_row(reader):
    database, _ = reader
    database.run(
        "CREATE TABLE persons (age integer, marital text, income numeric(10, 2), born date,"
        " active boolean, photo bytea, free numeric)"
    )
    text = draft("persons", VARIABLE)  # this role may not SELECT
    assert text.startswith("# Draft of a schema for persons.")
    assert re.findall(r"^  (\w+):(?:\n    | \{)type: (\w+)", text, re.MULTILINE) == [
        ("age", "integer"),
        ("marital", "category"),
        ("income", "number"),
        ("born", "date"),
        ("active", "category"),
        ("free", "number"),
    ]
    assert re.search(r"^ignore: .*\n  - photo\b", text, flags=re.MULTILINE)


@pytest.mark.usefixtures("in_sqlite")
def test_a_refusal_amid_another_error_does_not_bring_that_along():
    def refuse(_connection):
        try:
            raise ValueError(CANARY)
        except ValueError:
            raise BadInput("It will not do.")  # noqa: B904

    with pytest.raises(BadInput) as caught:
        reading(parse_table(VARIABLE, "persons"), refuse)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(("declared", "stored"), [("numeric", "decimal"), ("bigint", None)])
def test_persons_are_not_told_apart_by_decimals_of_which_one_has_several_texts(
    survey_database, tmp_path, declared, stored
):
    """Otherwise 7 and 7.0 would be two persons, each with rows up to the limit."""
    survey_database.run(f"CREATE TABLE persons (id {declared}, a bigint)")
    if stored is None or survey_database.kind == "sqlite":
        survey_database.insert("persons", [(7, 1), (7, 2)])
    else:
        survey_database.insert("persons", [(Decimal("7"), 1), (Decimal("7.0"), 2)])
    column = {"type": "integer", "min": "0", "max": "9"}
    unit = {"column": "id", "max_rows": "1"}
    schema = parse_schema({"version": "1", "title": "t", "unit": unit, "columns": {"a": column}})
    spec = SimpleNamespace(data=parse_table(VARIABLE, "persons"))
    folder = tmp_path / "run"
    folder.mkdir()
    if stored is None:
        source = open_input(spec, schema, folder)
        assert write_codes(source, schema, tmp_path / "codes").rows == 1
        return
    with pytest.raises(BadInput, match=r"'id' .* stored as decimal numbers"):
        open_input(spec, schema, folder)
    assert list(folder.iterdir()) == []


def test_a_view_that_sorts_writes_no_row_to_a_temporary_file(in_sqlite):
    """SQLite deletes the file at once but keeps it open, so it is among the open files."""
    in_sqlite.run("CREATE TABLE persons (a TEXT, b INTEGER)")
    rows = [(f"{CANARY}{number:0400d}", -number) for number in range(40_000)]
    in_sqlite.insert("persons", rows)
    in_sqlite.run("CREATE VIEW sorted AS SELECT a, b FROM persons ORDER BY b")

    def files_while_read(connection):
        assert connection.exec_driver_sql("PRAGMA temp_store").scalar() == 2
        found = connection.exec_driver_sql("SELECT a, b FROM sorted")
        assert found.fetchone()[1] == -39_999
        links = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
        return [os.readlink(link) for link in links if os.path.lexists(link)]

    opened = reading(parse_table(VARIABLE, "sorted"), files_while_read)
    assert any("survey.db" in name for name in opened)
    assert not [name for name in opened if "etilqs" in name]


def test_a_database_that_is_not_there_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path}/new.db")
    refusal(tmp_path / "run")
    assert not (tmp_path / "new.db").exists()


def test_a_draft_refuses_what_is_no_variable_without_showing_it():
    url = f"postgresql://u:{MARKER}@host/db"
    for database, table in ((url, "persons"), (VARIABLE, url)):
        with pytest.raises(BadInput) as caught:
            draft(table, database)
        assert MARKER not in caught.value.message
