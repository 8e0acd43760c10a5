import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.text.documents.strict_yaml import MAX_BYTES, load, parse


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
        ("a: 'x\n", ["quote is opened and never closed"]),
        ("a: {b:, c: 1}", ["line 1", "put quotes around"]),
        ("a: >=18", ["line 1", "put quotes around"]),
        ("a:\n  - 1\n - 2", ["line 3", "indentation"]),
        ("- :\t- {\t", ["line 1", "tab"]),
        ("? [a, b]\n: 1", ["line 1", "a key must be a single text"]),
        ("?\n: 1", ["line 1", "key is empty"]),
        ("a: \x00", ["line 1", "control character"]),
        ("", ["f.yaml: is empty"]),
        ("[" * 40 + "]" * 40, ["nested deeper"]),
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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rnd.yaml", " Did you mean 'rand.yaml'?"),
        ("RAND.yaml", " Did you mean 'rand.yaml'?"),
        ("nope.yaml", " Write it."),
        ("town.release.yaml", " Write it."),
        ("twon.schema.yaml", " Did you mean 'town.schema.yaml'?"),
    ],
)
def test_only_a_similar_file_of_the_same_kind_is_suggested(tmp_path, name, hint):
    for other in ("rand.yaml", "s.yaml", "town.schema.yaml", "town.release.csv"):
        (tmp_path / other).write_text("a: 1")
    with pytest.raises(BadInput) as caught:
        load(tmp_path / name, advice="Write it.")
    assert caught.value.message.endswith(f"{str(tmp_path)!r}.{hint}")


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")

    assert load(tmp_path / "a.yaml").root.entries()["a"].integer() == 1


@given(st.text(max_size=60))
def test_any_text_is_a_document_or_a_sentence(text):
    try:
        place = parse(text, source="f.yaml").source
    except BadInput as error:
        place = error.message

    assert place.startswith("f.yaml")


@pytest.mark.parametrize("half", ["ud800", "udfff", "U0000dce9"])
def test_half_of_a_surrogate_pair_is_no_text(half):
    assert "invalid Unicode character" in refusal(f'title: "caf\\{half}"\n')
