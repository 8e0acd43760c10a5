"""The document of a release states unit and budget; what contradicts itself is refused."""

import copy

import pytest

from dp_core.accounts.requested import plain_unit, words_of
from dp_core.kernel.document import (
    A_ROW,
    NAME,
    VERSION,
    ProtectedUnit,
    check_document,
    document_hash,
    protected_unit,
)
from dp_core.kernel.errors import BadInput
from tests.vectors.make import DOCUMENT as PLAIN
from tests.vectors.make import SEX, UNITS

PERSON = ProtectedUnit("person", "id", 3, ("", "?"))
DOCUMENT = PLAIN | {
    "unit": plain_unit(PERSON),
    "dependents": [{"column": SEX | {"name": "mr"}, "source": "sex", "codes": [0, 1], "cuts": []}],
    "extensions": ["indif", "r-score"],
}


def test_a_complete_document_states_its_unit():
    assert check_document(DOCUMENT) == PERSON
    assert check_document(DOCUMENT | {"unit": {"word": "row"}}) == A_ROW


@pytest.mark.parametrize(
    "unit",
    [
        A_ROW,
        PERSON,
        ProtectedUnit("household", "home", 20, ("",), link="home_id"),
        ProtectedUnit("person", "id", 1, (), ("2023", "2025")),
    ],
    ids=words_of,
)
def test_a_unit_comes_back_from_its_plain_values(unit):
    assert protected_unit(plain_unit(unit)) == unit


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", {"name": NAME, "version": VERSION + 1}),
        ("release", ""),
        ("neighbours", "both"),
        ("extensions", ["indif", "indif"]),
        ("extensions", ["r-score", "indif"]),
        ("extensions", ["any question"]),
        ("extensions", "indif"),
        ("columns", []),
        ("columns", [SEX, SEX]),
        ("columns", [SEX | {"name": "id"}]),
        ("columns", [{"name": "sex"}]),
        ("columns", [SEX | {"codes": 9}]),
        # A code for no member of a household, which no column of rows has.
        ("columns", [SEX | {"codes": 4}]),
        ("records", {"of": "panel"}),
        ("records", {"of": "rows", "key": "id"}),
        ("records", None),
        ("release", "\ud800"),
        ("columns", [["sex"]]),
        ("currency", {"kind": "zcdp", "limit": "1/50"}),
        ("currency", {"kind": "rho", "limit": "1/50", "own_delta": "0"}),
        ("currency", {"kind": "zcdp", "limit": "-1", "own_delta": "0"}),
        ("currency", {"kind": "zcdp", "limit": 1, "own_delta": "0"}),
        ("stages", {"one_way": "1/500", "measure": "10/500"}),
        ("stages", {"one_way": "1/500", "measure": "9/500", "checks": "-0.1"}),
        ("stages", {"one_way": "x"}),
        ("stages", ["1/50"]),
        ("stages", {"one_way": "1/500", "measure": " 9/500"}),
        ("currency", {"kind": "zcdp", "limit": "1e3000000", "own_delta": "0"}),
        ("unit", plain_unit(PERSON) | {"word": ["person"]}),
        ("unit", plain_unit(PERSON) | {"link": "id"}),
        ("unit", None),
        ("unit", plain_unit(PERSON) | {"most": 0}),
        ("unit", plain_unit(PERSON) | {"most": 1001}),
        ("unit", plain_unit(PERSON) | {"most": True}),
        ("unit", plain_unit(PERSON) | {"identified_by": ""}),
        ("unit", plain_unit(PERSON) | {"missing_values": ""}),
        ("unit", plain_unit(PERSON) | {"word": "area"}),
        ("unit", plain_unit(PERSON) | {"word": "household", "most": 21}),
        ("unit", plain_unit(PERSON) | {"waves": ["2023", "2025"]}),
        ("unit", plain_unit(PERSON) | {"weight": 1}),
        ("more", 1),
        ("dependents", None),
        ("dependents", [{"column": SEX}]),
        ("dependents", [DOCUMENT["dependents"][0] | {"source": "mr"}]),
        ("dependents", [DOCUMENT["dependents"][0] | {"column": SEX}]),
        ("dependents", [DOCUMENT["dependents"][0] | {"codes": [0, 9]}]),
        ("dependents", [DOCUMENT["dependents"][0] | {"source": ["sex"]}]),
        ("dependents", [DOCUMENT["dependents"][0] | {"cuts": ["x"]}]),
        ("dependents", [DOCUMENT["dependents"][0] | {"cuts": ["2", "1"]}]),
    ],
)
def test_a_document_with_a_wrong_value_is_refused(key, value):
    with pytest.raises(BadInput, match="kernel's document"):
        check_document(copy.deepcopy(DOCUMENT) | {key: value})


@pytest.mark.parametrize(("stated", "records"), [each[1:] for each in UNITS])
def test_records_are_made_of_what_the_unit_protects(stated, records):
    unit = protected_unit(stated)
    document = DOCUMENT | {"unit": plain_unit(unit), "records": records}
    if unit.word == "household":
        names = ("tenure", "members", "sex", "other.sex")
        document |= {"columns": [SEX | {"name": name} for name in names]}
        document |= {"rules": PLAIN["rules"]}
    assert check_document(document) == unit
    if unit.word == "household":  # a code for no such person
        more = [each | {"codes": 4} for each in document["columns"]]
        assert check_document(document | {"columns": more}) == unit
    wrong = {
        **dict.fromkeys(("key", "link", "person"), "other"),
        **{"max_members": 3, "person_columns": ["tenure"], "household_columns": "tenure"},
        **{"columns": {"work": {"2022": "sex"}}, "takes_part": {"2022": "in_2022"}},
    }
    for key in {*wrong} & {*records}:
        other = records | {key: wrong[key]}
        with pytest.raises(BadInput, match=r"records\."):
            check_document(document | {"records": other})
    for key in records:
        less = {name: value for name, value in records.items() if name != key}
        with pytest.raises(BadInput, match="records"):
            check_document(document | {"records": less})


def test_the_words_of_a_household_name_the_column_of_its_persons():
    _, household, _ = UNITS[2]
    assert words_of(protected_unit(household)) == (
        "one household (identified by home, its persons by home_id; at most 4 persons)"
    )


@pytest.mark.parametrize("key", DOCUMENT)
def test_a_document_without_a_key_is_refused(key):
    with pytest.raises(BadInput, match="kernel's document"):
        check_document({name: value for name, value in DOCUMENT.items() if name != key})


def test_the_hash_covers_every_value_and_no_order():
    same = dict(reversed(DOCUMENT.items()))
    assert document_hash(same) == document_hash(DOCUMENT)
    other = DOCUMENT | {"unit": plain_unit(PERSON) | {"missing_values": [""]}}
    assert document_hash(other) != document_hash(DOCUMENT)
