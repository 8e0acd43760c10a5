from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.text.documents.node import from_plain, in_place
from dp_core.text.documents.strict_yaml import parse, plain


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
        ("1.0", lambda n: n.integer(), "digits only"),
        ("1" * 5000, lambda n: n.integer(), "not a whole number"),
        ("0", lambda n: n.fraction(above=0), "greater than 0"),
        ("-1", lambda n: n.fraction(minimum=0), "at least 0"),
        ("1", lambda n: n.fraction(below=1), "less than 1"),
        ("1.1", lambda n: n.fraction(maximum=1), "at most 1"),
        ("maybe", lambda n: n.boolean(), "neither true nor false"),
        ("gum", lambda n: n.items(), "must be a list, such as [a, b]"),
        ("[a]", lambda n: n.text(), "must be a single value"),
        ("[a]", lambda n: n.entries(), "not a list"),
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
        ("{epsilon: 1,0}", lambda n: n.fields(("epsilon", "delta")), "a comma ends the value"),
        ("{note: Days active, past week}", lambda n: n.fields(("note", "type")), "a comma ends"),
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


def test_a_key_of_plain_values_is_not_taken_for_a_piece_of_the_one_before():
    root = from_plain({"note": "Days active", "rest": None}, source="x")
    with pytest.raises(BadInput, match="there is no key 'rest' here"):
        root.fields(("note", "type"))


@pytest.mark.parametrize("word", ["true", "yes", "on", "True", "YES"])
def test_truth_has_its_usual_spellings(word):
    assert parse(f"a: {word}", source="f").entries()["a"].boolean()


def test_a_refusal_gets_the_place_of_a_node_and_keeps_its_row_of_the_runbook():
    def refuse(_name, *, why):
        raise BadInput(why, row="some-row")

    node = parse("a:\n  b: c", source="x.yaml").entries()["a"].entries()["b"]
    with pytest.raises(BadInput) as refused:
        in_place(node, refuse, "c", why="is wrong.")
    assert (refused.value.faults[0].line, refused.value.faults[0].key) == (2, "a.b")
    assert refused.value.row == "some-row"
    assert in_place(node, str.upper, "c") == "C"
