import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.yaml_text import (
    MAX_BYTES,
    Node,
    from_plain,
    load,
    parse,
    parse_date,
    parse_fraction,
)


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse(text, source="f.yaml")
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "text", ["1e-9", "yes", "no", "on", "007", "1900-01-01", "null", "~", "0x1F", "1_000", "12:30"]
)
def test_every_scalar_is_the_text_that_was_typed(text):
    assert parse(f"a: {text}", source="f").entries()["a"].text() == text
    assert parse(f"a: [{text}]", source="f").entries()["a"].texts() == (text,)


def test_an_empty_text_is_not_nothing():
    entries = parse("a: ''\nb: \"\"\nc:\nd: |\n", source="f").entries()

    assert [entries[key].content for key in "abcd"] == ["", "", None, ""]
    with pytest.raises(BadInput, match="f, line 3, c: has no value"):
        entries["c"].text()


def test_nodes_know_line_and_key():
    root = parse("a: 1\nb:\n  c:\n    - x\n    - {d: 3}\n", source="f.yaml")

    inner = root.entries()["b"].entries()["c"].items()[1].entries()["d"]
    assert inner.where == "f.yaml, line 5, b.c[2].d"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a: 1\nb: 2\na: 3\n", ["f.yaml, line 3", "'a' is given twice", "line 1"]),
        ("x:\n  {p: 1, p: 1}", ["line 2, x", "'p' is given twice"]),
        ("a: &x [1]\nb: *x\n", ["line 1, a", "anchors"]),
        ("a: 1\nb: *x\n", ["line 2, b", "aliases"]),
        ("a: 1\n<<: {b: 1}\n", ["line 2", "merge keys"]),
        ("a: !!python/object:os.system ls", ["line 1, a", "tags", "quotes"]),
        ("a: !=3", ["line 1, a", "quotes around a text starting with !"]),
        ("a:\n\tb: 1\n", ["line 2", "tab", "spaces"]),
        ("a: 1\n---\nb: 2\n", ["line 2", "second document"]),
        ("a: b: c", ["line 1", "indentation", "quotes"]),
        ("key:value\nother: 1", ["line 2", "space after every colon"]),
        ("a: [1, 2\n", ["not closed"]),
        ("a: {b: 1\n", ["not closed"]),
        ("a: 'x\n", ["quote is opened and never closed"]),
        ("a: {b:, c: 1}", ["line 1", "has no value"]),
        ("a: >=18", ["line 1", "needs quotes"]),
        ("x: {age: >=18}", ["line 1", "needs quotes"]),
        ("a: %x", ["line 1", "needs quotes"]),
        ("a: [*, b]", ["line 1", "starts with * or &", "needs quotes"]),
        ("a:\n  - 1\n - 2", ["line 3", "indentation"]),
        ("- :\t- {\t", ["line 1", "tab"]),
        ("? [a, b]\n: 1", ["line 1", "a key must be a single text"]),
        ("x: [a, ?]", ["line 1", "quotes around a ?"]),
        ("?\n: 1", ["line 1", "key is empty"]),
        ("a: \x00", ["line 1", "control character"]),
        ("a: 1\nb: \x1b[31m", ["line 2", "control character"]),
        ("", ["f.yaml: is empty"]),
        ("# only this\n\n", ["f.yaml: is empty"]),
        ("[" * 40 + "]" * 40, ["nested deeper"]),
        ("{a: " * 30 + "1" + "}" * 30, ["nested deeper"]),
    ],
)
def test_yaml_that_is_not_strict_is_refused_with_its_line(text, parts):
    message = refusal(text)

    assert message.startswith("f.yaml")
    assert all(part in message for part in parts), message


def test_a_quoted_merge_key_is_a_key():
    assert list(parse('"<<": 1', source="f").entries()) == ["<<"]


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "rand.yaml").write_text("a: 1")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (tmp_path / "wide.yaml").write_bytes("a: 1".encode("utf-16"))
    (tmp_path / "empty.yaml").write_bytes(b"")
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    expected = {
        "latin.yaml": "latin.yaml, line 2: is not UTF-8",
        "wide.yaml": "wide.yaml, line 1: is not UTF-8",
        "empty.yaml": "empty.yaml: is empty",
        "data.csv": "data.csv: is a data file",
        "large.yaml": "large.yaml: is larger than 16 MB",
        "rnd.yaml": "Did you mean 'rand.yaml'",
        "rand.yaml/x": "no such file",
        "n" * 300: "cannot be read",
        ".": "is a folder",
    }
    for name, message in expected.items():
        with pytest.raises(BadInput) as caught:
            load(tmp_path / name)
        assert message in caught.value.message


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")

    assert load(tmp_path / "a.yaml").root.entries()["a"].integer() == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0e-9", Fraction(1, 10**9)),
        ("1/3", Fraction(1, 3)),
        (" 2 / 4 ", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+1E2", Fraction(100)),
        ("-3", Fraction(-3)),
        ("007", Fraction(7)),
        ("1e-300", Fraction(1, 10**300)),
    ],
)
def test_numbers_are_exact(text, value):
    assert parse_fraction(text) == value


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("1,0", "1.0"),
        ("1,000", "thousands"),
        ("10%", "fraction such as 0.1"),
        ("nan", "finite"),
        (".inf", "finite"),
        ("Infinity", "finite"),
        ("1e400", "exponents"),
        ("1e-4000", "exponents"),
        ("1e" + "9" * 50, "exponents"),
        ("1/0", "divides by zero"),
        ("1/3/4", "not a number"),
        ("one", "'one' is not a number"),
        ("", "not a number"),
        ("1_000", "not a number"),
        ("0x10", "not a number"),
        ("−1", "minus sign"),
        ("１", "not a number"),
        ("1" * 101, "longer than 100"),
        ("1.2.3", "not a number"),
    ],
)
def test_what_is_not_a_number_is_refused_with_a_way_to_write_it(text, part):
    with pytest.raises(ValueError, match=re.escape(part)) as caught:
        parse_fraction(text)

    assert len(str(caught.value)) < 200


@given(st.fractions(max_denominator=10**20))
def test_a_written_fraction_is_read_back(value):
    assert parse_fraction(str(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**50), max_value=10**50))
def test_a_written_decimal_is_read_back_exactly(value):
    if abs(value.adjusted()) < 90 and len(str(value)) <= 100:
        assert parse_fraction(str(value)) == Fraction(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_float_is_its_decimal_text_or_refused(value):
    if 1e-290 < abs(value) < 1e290:
        assert parse_fraction(repr(value)) == Fraction(repr(value))


@given(st.text(max_size=120))
def test_any_text_is_a_number_or_a_sentence(text):
    sentence = "1."
    try:
        parse_fraction(text)
    except ValueError as error:
        sentence = str(error)

    assert sentence.endswith(".")


@given(st.text(max_size=60))
def test_any_text_is_a_document_or_a_sentence(text):
    try:
        place = parse(text, source="f.yaml").source
    except BadInput as error:
        place = error.message

    assert place.startswith("f.yaml")


@given(
    st.recursive(
        st.none() | st.text(alphabet="ab ", max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_plain_values_keep_their_shape(value):
    def plain(node: Node) -> object:
        if isinstance(node.content, tuple):
            return [plain(item) for item in node.content]
        if isinstance(node.content, dict):
            return {key: plain(item) for key, item in node.content.items()}
        return node.content

    assert plain(from_plain(value, source="x")) == value


def test_plain_numbers_and_truth_values_become_text():
    entries = from_plain({"a": 1, "b": True, "c": Fraction(1, 3), 4: 0.1}, source="x").entries()

    assert entries["a"].integer() == 1
    assert entries["b"].boolean() is True
    assert entries["c"].fraction() == Fraction(1, 3)
    assert entries["4"].fraction() == Fraction(1, 10)


@pytest.mark.parametrize(
    ("text", "read", "part"),
    [
        ("12", lambda n: n.integer(maximum=5), "at most 5"),
        ("-1", lambda n: n.integer(minimum=0), "at least 0"),
        ("1.0", lambda n: n.integer(), "not a whole number"),
        ("1" * 5000, lambda n: n.integer(), "not a whole number"),
        ("0", lambda n: n.fraction(above=0), "greater than 0"),
        ("-1", lambda n: n.fraction(minimum=0), "at least 0"),
        ("1", lambda n: n.fraction(below=1), "less than 1"),
        ("1.1", lambda n: n.fraction(maximum=1), "at most 1"),
        ("maybe", lambda n: n.boolean(), "neither true nor false"),
        ("31/12/2026", lambda n: n.date(), "year-month-day"),
        ("2026-02-30", lambda n: n.date(), "no day"),
        ("20260101", lambda n: n.date(), "year-month-day"),
        ("gum", lambda n: n.items(), "must be a list, such as [a, b]"),
        ("gum", lambda n: n.entries(), "must be a mapping"),
        ("[a]", lambda n: n.text(), "must be a single value"),
        ("[a]", lambda n: n.entries(), "not a list"),
        ("{a: 1}", lambda n: n.items(), "not a mapping"),
        ("[a, a]", lambda n: n.texts(), "given twice"),
        ("\n- a\n-\n", lambda n: n.texts(), 'write ""'),
        ("' '", lambda n: n.name(), "blank"),
        ("catgory", lambda n: n.choice(("category", "date")), "Did you mean 'category'"),
        ("{neighbors: 1}", lambda n: n.fields(("neighbours",)), "Did you mean 'neighbours'"),
        (
            "{epsilom: 1}",
            lambda n: n.fields(("epsilom", "epsilon"), required=("epsilon",)),
            "'epsilon' is missing",
        ),
        ("{epsilon: 1,0}", lambda n: n.fields(("epsilon", "delta")), "write 1.0 with"),
        (
            "{note: Days active, past week}",
            lambda n: n.fields(("note", "type")),
            'write "Days active, past week" in quotes',
        ),
        ("{type: integer, mim}", lambda n: n.fields(("type", "min")), "Did you mean 'min'"),
        ("[{a: 1}, {a: 2}]", lambda n: n.ordered_entries(example="x"), "'a' is given twice"),
        ("[{a: 1, b: 2}]", lambda n: n.ordered_entries(example="x"), "one key with its value"),
        ("[[a]]", lambda n: n.ordered_entries(example="x", bare=True), "a single text"),
    ],
)
def test_readers_say_what_they_expect_and_where(text, read, part):
    with pytest.raises(BadInput) as caught:
        read(parse(f"k: {text}", source="f.yaml").entries()["k"])

    assert part in caught.value.message
    assert caught.value.message.startswith("f.yaml, line ")
    assert ", k" in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("word", ["true", "yes", "on", "True", "YES"])
def test_truth_has_its_usual_spellings(word):
    assert parse(f"a: {word}", source="f").entries()["a"].boolean()


def test_dates_of_other_iso_spellings_are_refused():
    for text in ("2026-W01-1", "20260101", "2026-1-1"):
        with pytest.raises(ValueError, match="2026-12-31"):
            parse_date(text)


@pytest.mark.parametrize("half", ["ud800", "udfff", "U0000dce9"])
def test_half_of_a_surrogate_pair_is_no_text(half):
    assert "invalid Unicode character" in refusal(f'title: "caf\\{half}"\n')
