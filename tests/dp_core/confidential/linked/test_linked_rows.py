"""Two confidential tables as pair rows: what is refused, and what one household can change."""

import itertools
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.confidential.linked.linked_rows import RulesBroken
from dp_core.errors import SchemaViolation
from dp_core.tables.linked_records import from_pair_rows
from tests.linked_frames import household_codes, pair_row_codes
from tests.schema_texts import FLATS, RAND, read

PLAIN = read(FLATS[: FLATS.index("impossible:")])
CLIPPED = read(
    FLATS[: FLATS.index("impossible:")].replace("max_members: 4", "max_members: 2, larger: clip")
)
HOME = {"hh": "7", "district": "1", "income": "50", "children": "0", "street": "High Street"}
PERSON = {
    **{"hh": "7", "number": "1", "age": "30", "sex": "m", "job": "part"},
    **{"passport": "X1", "street": "High Street"},
}


def table(rows, columns=HOME):
    names = list(columns)
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names})


def homes(*rows):
    return table([{**HOME, **row} for row in rows], HOME)


def persons(*rows):
    return table([{**PERSON, **row} for row in rows], PERSON)


def refusal(schema, *files):
    """Return what is said of files that are refused, which has no value of theirs and no count."""
    with pytest.raises(SchemaViolation) as caught:
        household_codes(schema, *files)
    error = caught.value
    assert error.message.count(". ") == 0
    assert error.message.endswith(".")
    assert error.internal
    assert re.match(r"row \d+|\d+ rows", error.internal)
    numbers = {*re.findall(r"\d+", error.message)}
    rules = " ".join(rule.text for rule in schema.rules)
    assert numbers <= {"7", "07", *re.findall(r"\d+", FLATS + rules)}
    for secret in ("High", "X1", "4711"):
        assert secret not in error.message
    return error.message


def as_number(key):
    """Return a key without the zeros that do not count."""
    return (key.lstrip("0") or "0") if key.isdigit() else key


@st.composite
def files(draw, most=4):
    """Return households, and their persons mixed up, as lists of rows."""
    keys = draw(st.lists(st.text("07a", min_size=1, max_size=3), max_size=6, unique_by=as_number))
    found, people = [], []
    for key in keys:
        found.append(
            {
                **HOME,
                "hh": key,
                "district": draw(st.sampled_from("12")),
                "income": draw(st.sampled_from(["0", "45", "?", "100"])),
                "children": draw(st.sampled_from("0123")),
            }
        )
        numbers = st.sampled_from(["1", "2", "10", "-3", "b", "a"])
        for number in draw(st.lists(numbers, min_size=1, max_size=most, unique=True)):
            people.append(
                {
                    **PERSON,
                    "hh": key,
                    "number": number,
                    "age": draw(st.sampled_from(["3", "20", "50", "99"])),
                    "sex": draw(st.sampled_from(["m", "f", "", "x"])),
                    "job": draw(st.sampled_from(["none", "full"])),
                }
            )
    return found, draw(st.permutations(people))


def ordered(people):
    """Return the rows of one household in the order of their keys: numbers before texts."""

    def key(row):
        number = re.fullmatch("-?[0-9]+", row["number"])
        return (0, int(row["number"]), "") if number else (1, 0, row["number"])

    return sorted(people, key=key)


def one_by_one(schema, households, people):
    """Return the pair rows as tuples of labels: the definition."""
    found = []
    age = schema.column("age")
    for home in households:
        own = ordered([row for row in people if row["hh"] == home["hh"]])
        own = own[: schema.linked.max_members]
        income = "(missing)" if home["income"] == "?" else int(home["income"])
        if income != "(missing)":
            income = schema.column("income").code_labels()[min(income // 20, 4)]
        district = {"1": "north", "2": "south"}[home["district"]]
        head = (district, income, home["children"], str(len(own)))
        members = [
            (
                age.code_labels()[sum(edge <= int(row["age"]) for edge in (16, 40, 65))],
                {"m": "male", "f": "female"}.get(row["sex"], "(missing)"),
                row["job"],
            )
            for row in own
        ]
        pairs = [*itertools.permutations(members, 2)] or [(members[0], ("(no other member)",) * 3)]
        found += [(*head, *one, *other) for one, other in pairs]
    return found


def labels(schema, data):
    names = [column.code_labels() for column in schema.columns]
    return [tuple(of[c] for of, c in zip(names, row, strict=True)) for row in data.codes.T.tolist()]


@given(file=files())
def test_the_pair_rows_of_two_tables_are_the_ordered_pairs_of_members(file):
    households, people = file
    data = pair_row_codes(PLAIN, homes(*households), persons(*people))

    assert labels(PLAIN, data) == one_by_one(PLAIN, households, people)


@given(file=files())
def test_the_codes_of_the_tables_come_back_from_the_pair_rows(file):
    households, people = homes(*file[0]), persons(*file[1])
    rows = household_codes(PLAIN, households, people)
    back = from_pair_rows(PLAIN.linked, pair_row_codes(PLAIN, households, people))

    for one, other in zip(
        (rows.households, rows.sizes, rows.persons),
        (back.households, back.sizes, back.persons),
        strict=True,
    ):
        assert np.array_equal(one, other)


@given(file=files(), at=st.integers(0, 5))
def test_a_household_changes_no_rows_but_its_own_also_where_members_are_left_out(file, at):
    households, people = file
    whole = labels(CLIPPED, pair_row_codes(CLIPPED, homes(*households), persons(*people)))
    assert whole == one_by_one(CLIPPED, households, people)

    rows_of = {
        home["hh"]: one_by_one(CLIPPED, [home], people)  # each household by itself
        for home in households
    }
    assert whole == [row for home in households for row in rows_of[home["hh"]]]
    left = [home for place, home in enumerate(households) if place != at]
    if len(left) == len(households):
        return
    gone = households[at]["hh"]
    without = pair_row_codes(
        CLIPPED, homes(*left), persons(*(row for row in people if row["hh"] != gone))
    )
    assert labels(CLIPPED, without) == [row for home in left for row in rows_of[home["hh"]]]


def ages(rows):
    return rows.persons[0].tolist()


@pytest.mark.parametrize(
    "keys", [("-1", "9", "10"), ("9", "10", "b"), ("p9", "p10", "q1"), ("p7", "p07", "q"), "abc"]
)
def test_the_first_members_by_key_stay_whatever_the_order_of_the_file(keys):
    rows = [{"number": key, "age": age} for key, age in zip(keys, ("3", "20", "70"), strict=True)]
    for order in itertools.permutations(rows):
        found = ages(household_codes(CLIPPED, homes({}), persons(*order)))
        assert found == ([1, 0] if keys[1] == "p07" else [0, 1])


def test_texts_among_the_keys_of_one_household_do_not_change_the_order_in_another():
    own = [{"number": "10", "age": "70"}, {"number": "9", "age": "3"}, {"number": "8", "age": "3"}]
    other = [{"hh": "8", "number": "b", "age": "70"}]
    alone = household_codes(CLIPPED, homes({}), persons(*own))
    both = household_codes(CLIPPED, homes({}, {"hh": "8"}), persons(*other, *own))

    assert ages(alone) == [0, 0]
    assert ages(both) == [0, 0, 3]


@pytest.mark.parametrize("digits", ["1" * 18, "9" * 19, "9" * 5000])
def test_a_key_of_many_digits_is_a_number(digits):
    rows = persons({"number": digits, "age": "70"}, {"number": "5", "age": "3"})

    assert ages(household_codes(PLAIN, homes({}), rows)) == [0, 3]


def stored(rows, kind):
    return pa.chunked_array([rows.column("hh").combine_chunks().cast(kind)])


@pytest.mark.parametrize(
    "kind",
    [
        pa.int64(),
        pa.uint8(),
        pa.float64(),
        pa.decimal128(5, 1),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
def test_keys_may_be_stored_as_texts_or_whole_numbers_of_any_kind(kind):
    people = persons({"age": "70"}, {"hh": "8", "age": "3"})
    people = people.set_column(0, "hh", stored(people, kind))

    rows = household_codes(PLAIN, homes({"hh": "8"}, {}), people)

    assert ages(rows) == [0, 3]


@pytest.mark.parametrize(
    "key", [pa.array([1.5]), pa.array([2.0**53]), pa.array([True]), pa.array([Decimal("1.5")])]
)
def test_keys_that_do_not_tell_households_apart_are_refused(key):
    home = homes({"hh": "1"}).set_column(0, "hh", key)

    with pytest.raises(SchemaViolation, match=r"'hh' of the table households is a key and is"):
        household_codes(PLAIN, home, persons({"hh": "1"}))


def test_the_order_of_columns_and_the_cut_into_pieces_are_free():
    households = homes({}, {"hh": "8", "district": "2"})
    people = persons({}, {"number": "2", "age": "3"}, {"hh": "8", "age": "70"})
    whole = pair_row_codes(PLAIN, households, people)
    pieces = pa.concat_tables([people.slice(0, 1), people.slice(1)])

    other = pair_row_codes(
        PLAIN,
        households.select(households.column_names[::-1]),
        pieces.select(people.column_names[::-1]),
    )

    assert pieces.column("age").num_chunks == 2
    assert np.array_equal(other.codes, whole.codes)


def test_a_vacant_dwelling_is_one_pair_row_without_a_member_if_the_schema_allows_it():
    text = FLATS[: FLATS.index("impossible:")]
    vacant = read(text.replace("max_members: 4", "max_members: 4, min_members: 0"))
    households = homes({"hh": "8", "district": "2"}, {}, {"hh": "9"})
    data = pair_row_codes(vacant, households, persons({"number": "1"}, {"number": "2"}))
    found = from_pair_rows(vacant.linked, data)

    assert found.sizes.tolist() == [0, 2, 0]
    assert data.rows == 4  # one of each vacant dwelling, and both pairs of the two members
    labels = [vacant.column(name).code_labels() for name in data.domain.columns]
    first = [label[code] for label, code in zip(labels, data.codes[:, 0], strict=True)]
    assert first[0] == "south"
    assert first[3:] == ["0", *["(no member)"] * 3, *["(no other member)"] * 3]
    assert not vacant.zeros.violations(data).any()
    # The members of the others are those of a file without vacant dwellings.
    alone = pair_row_codes(PLAIN, homes({}), persons({"number": "1"}, {"number": "2"}))
    np.testing.assert_array_equal(data.codes[4:, 1:3], alone.codes[4:])


REFUSED = {
    "no such household": (
        (homes({}), persons({}, {"hh": "4711"})),
        "of the table persons has values that are not in column 'hh' of the table households",
    ),
    "a household twice with other zeros": (
        (homes({}, {"hh": "07"}), persons({})),
        "repeats a key",
    ),
    "a household without persons": (
        (homes({}, {"hh": "4711"}), persons({})),
        "Some households in the table households have no members in the table persons; add their"
        " members, leave these households out, or write `min_members: 0`",
    ),
    "a repeated household": (
        (homes({}, {}), persons({})),
        "Column 'hh' of the table households repeats a key",
    ),
    "a repeated person": (
        (homes({}), persons({}, {})),
        "Column 'number' of the table persons repeats a key within a household",
    ),
    "a household of five": (
        (homes({}), persons(*({"number": str(number)} for number in range(5)))),
        "Some households have more than 4 members, the `max_members` of the schema",
    ),
    "an institution": (
        (homes({}), persons(*({"number": str(number)} for number in range(4000)))),
        "an institution is not a household",
    ),
    "an empty key": ((homes({"hh": " "}), persons({})), "the table households has rows without"),
    "a missing key": ((homes({"hh": None}), persons({})), "the table households has rows without"),
    "a text for missing as link": (
        (homes({}), persons({}, {"hh": "?"})),
        "Column 'hh' of the table persons has rows without a key",
    ),
    "an empty person key": (
        (homes({}), persons({"number": ""})),
        "Column 'number' of the table persons has rows without a key",
    ),
    "an unknown level": (
        (homes({}), persons({"job": "4711"})),
        "Values of 'job' in the table persons are not in the schema",
    ),
    "a value out of range": (
        (homes({"children": "4711", "income": "4711"}), persons({})),
        "Values of 'income', 'children' in the table households are not in the schema",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_said_in_one_sentence_without_a_value(case):
    given_files, said = REFUSED[case]

    assert said in refusal(PLAIN, *given_files)


def test_a_household_of_four_thousand_keeps_its_first_members_where_the_schema_says_so():
    people = persons(*({"number": str(number)} for number in range(4000, 0, -1)))
    rows = household_codes(CLIPPED, homes({}), people)

    assert rows.sizes.tolist() == [2]


def test_a_key_and_a_link_that_are_exchanged_do_not_make_nearly_all_dwellings_vacant():
    """The link is then the number within the household, so a few households have everybody."""
    text = FLATS[: FLATS.index("impossible:")]
    text = text.replace("max_members: 4", "max_members: 2, min_members: 0, larger: clip")
    exchanged = read(text.replace("link: hh", "link: number").replace("key: number", "key: hh"))
    households = homes(*({"hh": str(number)} for number in range(1, 10)))
    people = persons(*({"hh": str(hh), "number": str(n)} for hh in range(1, 10) for n in (1, 2)))

    assert "`key: hh` and `link: number` of the table persons seem to be exchanged" in refusal(
        exchanged, households, people
    )
    assert household_codes(read(text), households, people).sizes.tolist() == [2] * 9


def test_the_same_number_in_two_households_is_no_repetition():
    rows = household_codes(PLAIN, homes({}, {"hh": "8"}), persons({}, {"hh": "8"}))

    assert rows.sizes.tolist() == [1, 1]


def test_no_household_at_all_has_no_pair_rows():
    data = pair_row_codes(PLAIN, homes(), persons())

    assert data.codes.shape == (len(PLAIN.domain), 0)


def ruled(*rules):
    return read(FLATS[: FLATS.index("impossible:")] + "rules:\n" + "".join(rules))


def test_a_rule_over_both_tables_is_judged_for_each_person_with_the_household():
    schema = read(FLATS)
    poor = homes({"income": "10"})

    assert "`if income < 20 then job != full`" in refusal(
        schema, poor, persons({}, {"number": "2", "job": "full"})
    )
    assert household_codes(schema, homes({}), persons({"job": "full"})).sizes.tolist() == [1]
    assert household_codes(schema, poor, persons({})).sizes.tolist() == [1]
    missing = homes({"income": "?"})  # neither met nor broken
    assert household_codes(schema, missing, persons({"job": "full"})).sizes.tolist() == [1]


def test_a_rule_about_the_number_of_members_is_judged_for_each_household():
    schema = read(FLATS)
    one_child = homes({"children": "1"})

    assert "households that break `children < members`" in refusal(schema, one_child, persons({}))
    both = persons({}, {"number": "2"})
    assert household_codes(schema, one_child, both).sizes.tolist() == [2]


def test_a_rule_that_counts_members_is_judged_for_each_household():
    schema = ruled("  - exactly one job == full\n", "  - at least one age >= 16\n")
    one, none = {"job": "full"}, {"number": "2", "job": "none"}

    assert household_codes(schema, homes({}), persons(one, none)).sizes.tolist() == [2]
    for people in ((none,), (one, {**none, "job": "full"})):
        with pytest.raises(SchemaViolation) as caught:
            household_codes(schema, homes({}), persons(*people))
        assert caught.value.message == (
            "The files have households that break `exactly one job == full` of the schema; correct"
            " the files or the rule."
        )
        assert caught.value.internal == "1 rows: exactly one job == full; first households: 7"
    child = persons({"age": "3", "job": "full"})
    assert "`at least one age >= 16`" in refusal(schema, homes({}), child)
    # Members of other households do not count.
    two = homes({}, {"hh": "8"})
    people = persons(one, {**none, "hh": "8"})
    assert "break `exactly one job == full`" in refusal(schema, two, people)


def test_a_rule_that_counts_members_is_judged_for_the_household_as_it_is_kept():
    text = FLATS[: FLATS.index("impossible:")] + "rules:\n  - at most one job == full\n"
    text = text.replace("max_members: 4", "max_members: 2, larger: clip")
    people = [
        {"number": str(number), "job": "full" if number != 2 else "none"} for number in (1, 2, 3)
    ]

    assert household_codes(read(text), homes({}), persons(*people)).sizes.tolist() == [2]
    people[1] |= {"job": "full"}
    assert "`at most one job == full`" in refusal(read(text), homes({}), persons(*people))
    # Only one that is left out has the value.
    at_least = read(text.replace("at most one job == full", "at least one job == full"))
    last = [
        {"number": str(number), "job": "full" if number == 3 else "none"} for number in (1, 2, 3)
    ]
    assert "`at least one job == full`" in refusal(at_least, homes({}), persons(*last))


def test_a_rule_that_counts_members_sees_values_that_another_rule_sets_to_missing():
    schema = ruled("  - if job == full then sex == f\n", "  - at least one sex == m\n")
    people = persons({"sex": "m", "job": "full"}, {"number": "2", "sex": "m"})
    rows = household_codes(schema, homes({}), people)

    assert rows.persons[1].tolist() == [2, 0]
    alone = persons({"sex": "m", "job": "full"})
    assert "`at least one sex == m`" in refusal(schema, homes({}), alone)


def test_a_broken_rule_names_the_first_households_that_break_it():
    schema = ruled("  - exactly one job == full\n", "  - if income < 20 then job != full\n")
    keys = [str(number) for number in range(10, 17)]
    given = homes(*({"hh": key, "income": "10"} for key in keys))
    poor = [{"hh": key, "job": "full", "number": each} for key in keys for each in "12"]
    idle = [{**person, "job": "none"} for person in poor]

    for people, whose, rows, shown in (
        (poor, "person", 14, ("10", "11", "12")),  # two persons of a household are one example
        (idle, "household", 7, ("10", "11", "12", "13", "14")),
    ):
        with pytest.raises(RulesBroken) as caught:
            household_codes(schema, given, persons(*people))
        (broken,) = caught.value.broken
        assert (broken.whose, broken.rows, broken.keys) == (whose, rows, shown)
        assert not any(key in caught.value.message for key in keys)


def test_a_structural_zero_of_persons_is_judged_in_the_table_of_persons():
    message = refusal(read(FLATS), homes({}), persons({"age": "10", "job": "full"}))

    assert "persons that break `age: <16, job: [part, full]`" in message


def test_only_a_column_of_persons_is_set_to_missing_by_a_rule_over_both_tables():
    clipping = FLATS.replace("missing: level}", "missing: level, out_of_range: missing}", 1)
    head = clipping[: clipping.index("impossible:")]
    schema = read(f"{head}rules:\n  - if sex == m then income >= 60\n")
    assert schema.column("income").out_of_range == "missing"
    rows = household_codes(schema, homes({}), persons({}, {"number": "2", "sex": "f"}))

    # Although `income` is the last column of the rule: the household's other members share it.
    assert rows.households[1].tolist() == [2]
    assert rows.persons[1].tolist() == [2, 1]


def test_a_rule_of_households_sets_their_column_to_missing():
    clipping = FLATS.replace("missing: level}", "missing: level, out_of_range: missing}", 1)
    head = clipping[: clipping.index("impossible:")]
    schema = read(f"{head}rules:\n  - if children > 1 then income >= 60\n")
    rows = household_codes(
        schema, homes({}, {"hh": "8", "children": "2"}), persons({}, {"hh": "8"})
    )

    assert rows.households[1].tolist() == [2, schema.column("income").missing_code]


def test_values_that_a_rule_compares_stay_with_their_person_in_any_order_of_the_file():
    schema = ruled("  - if job == full then age >= 18\n")
    adult, young = {"age": "19", "job": "full"}, {"hh": "8", "age": "17", "job": "part"}

    for people in ((adult, young), (young, adult)):
        rows = household_codes(schema, homes({}, {"hh": "8"}), persons(*people))
        assert rows.persons[2].tolist() == [2, 1]
    assert "`if job == full then age >= 18`" in refusal(
        schema, homes({}, {"hh": "8"}), persons({**young, "job": "full"}, {})
    )


def test_rules_are_judged_for_the_members_that_are_kept():
    text = FLATS.replace("max_members: 4", "max_members: 2, larger: clip")
    people = [{"number": str(number)} for number in range(1, 4)]
    people[2] |= {"age": "10", "job": "full"}

    assert household_codes(read(text), homes({}), persons(*people)).sizes.tolist() == [2]


def test_a_schema_of_a_single_table_is_refused():
    with pytest.raises(ValueError, match="single table"):
        household_codes(read(RAND), homes({}), persons({}))
