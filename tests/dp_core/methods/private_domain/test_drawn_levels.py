"""Rare levels that are merged in the tables and drawn at random in the sets."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.bundle.files.codebook import field
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.inference.questions.question import level_code
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.private_domain.quantile_tree import pieces_of_levels
from dp_core.methods.private_domain.questions import questions
from dp_core.plan.chosen_domain import Chosen, read_statement, recoding, statement, with_choices
from dp_core.plan.procedure import carry_out, decode_piece, sample
from dp_core.schema.bin_pieces import weights_of
from dp_core.schema.decoding import codes_of, stored_codes
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.schema.rules.possible_codes import decode
from tests.specs import plan_of

DRAWN = {
    "type": "category",
    "missing": "level",
    "levels": {"private": 3, "rest": "drawn"},
    "groups": {"one": ["a", "b", "c"], "two": ["d", "e", "f"], "three": ["g"]},
}
MERGED = DRAWN | {"levels": {"private": 3}}
CHOSEN = Chosen((0, 1, 3), ((0, 6), (3, 7), (4, 2), (5, 4), (6, 1)))
SCHEMA = """\
version: 1
title: Small survey
rows_about: 4000
columns:
  job:
    type: category
    missing: level
    levels: {private: 3, rest: drawn}
    groups: {one: [a, b, c], two: [d, e, f], three: [g]}
  sex: {type: category, levels: [m, f]}
"""
SHARES = (0.3, 0.05, 0.02, 0.2, 0.08, 0.05, 0.2, 0.1)
ROWS = 4000


def schema_of(column, **keys):
    return parse_schema({"version": 1, "title": "t", "columns": {"job": column}} | keys)


def data_of(schema):
    rng = np.random.default_rng(1)
    job = rng.choice(8, ROWS, p=SHARES)
    sex = np.where(rng.random(ROWS) < 0.9, job % 2, rng.integers(0, 2, ROWS))
    return Dataset(schema.stored.domain, np.array([job, sex]).astype(np.uint16))


def test_the_document_reads_back_and_is_that_of_merged_levels_without_the_key():
    schema = schema_of(DRAWN)
    assert parse_schema(schema.document) == schema
    (column,) = (each["job"] for each in schema.document["columns"])
    assert column["levels"] == {"private": "3", "rest": "drawn"}
    stated = schema_of(DRAWN | {"levels": {"private": 3, "rest": "merged"}})
    assert stated == schema_of(MERGED)
    assert stated.document == schema_of(MERGED).document


def test_it_asks_exactly_what_merged_levels_ask():
    """So nothing about the sensitivity, the noise and the charges differs."""
    assert questions(schema_of(DRAWN)) == questions(schema_of(MERGED))
    assert schema_of(DRAWN).domain == schema_of(MERGED).domain
    assert schema_of(DRAWN).stored.domain == schema_of(MERGED).stored.domain


def test_the_counts_get_a_larger_share_by_default(tmp_path):
    merged = SCHEMA.replace(", rest: drawn", "")
    for text, schema, share in [
        ("", SCHEMA, Fraction(1, 5)),
        ("", merged, Fraction(1, 20)),
        ("domain: {share: 0.3}\n", SCHEMA, Fraction(3, 10)),
    ]:
        plan = plan_of(tmp_path, text, schema=schema, method="privsyn")
        assert plan.spec.shares["domain"] == share
        assert sum(plan.spec.shares.values()) == 1


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"private": 5, "rest": "drawn"}, "keep at most 4, or make fewer groups"),
        ({"private": 3, "rest": "draw"}, "drawn"),
        ({"private": 3, "rest": ""}, "rest"),
        ({"private": 3, "rest": ["drawn"]}, "rest"),
        ({"private": "few", "rest": "drawn"}, "not a whole number"),
        ({"private": 7, "rest": "drawn"}, "nothing to choose"),
        ({"private": 3, "rests": "drawn"}, r"no key 'rests' here\. Did you mean 'rest'\?"),
        ({"privat": 3, "rest": "drawn"}, r"no key 'privat' here\. Did you mean 'private'\?"),
        ({"rest": "drawn"}, "the key 'private' is missing"),
        ({"private": 3, "drawn": None}, "for levels that are chosen privately"),
        ({"private": 3, "rest": "drawn", "groups": {}}, r"no key 'groups' here\. Known: private"),
        (["a", "b"], "`groups` is for levels that are chosen privately"),
        ("private", r"\{private: 20\}"),
    ],
)
def test_a_mistake_gets_one_sentence(levels, words):
    with pytest.raises(BadInput, match=words) as caught:
        schema_of(DRAWN | {"levels": levels})
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"rest": "drawn"}, "the key 'private' is missing"),
        ({"rest": "draw"}, "the key 'private' is missing"),
        ({"private": 3, "rests": "drawn"}, "Did you mean 'rest'"),
        ({"private": 3, "rest": "drawn"}, r"the key 'groups' is missing.*\{codes: "),
        ({"private": 3}, r"the key 'groups' is missing.*clerk"),
        ("private 200", "must be a list"),
    ],
)
def test_a_private_choice_without_groups_is_recognised_despite_a_mistake(levels, words):
    with pytest.raises(BadInput, match=words):
        schema_of({"type": "category", "levels": levels})


@pytest.mark.parametrize(
    "levels",
    [
        {"private": "Private firm", "public": "Public firm"},
        {"private": "1", "public": "2"},
        {"work": "Working", "rest": "Resting"},
        {"rest": "Rest", "drawn": "Drawn"},
        {"drawn": "2", "merged": "3"},
    ],
)
def test_levels_with_labels_are_not_taken_for_a_private_choice(levels):
    (column,) = schema_of({"type": "category", "levels": levels}).columns
    assert {level.text: level.label for level in column.levels} == levels
    assert column.choice is None


@pytest.mark.parametrize("groups", [["a", "b", "c", "d"], {"codes": "a"}, {"codes": "codes.csv"}])
def test_a_mistake_in_the_groups_says_what_to_write(groups):
    with pytest.raises(BadInput, match="clerk, manager"):
        schema_of(DRAWN | {"groups": groups})


def test_keys_of_a_private_choice_beside_levels_are_told_where_they_belong(tmp_path):
    with pytest.raises(BadInput, match="no key 'rest' here"):
        schema_of(DRAWN | {"levels": {"private": 3}, "rest": "drawn"})
    with pytest.raises(BadInput, match="no key 'private' here"):
        schema_of({"type": "category", "levels": ["a", "b", "c"], "private": 2})
    with pytest.raises(BadInput, match=r"add `codes: FILE\.csv`, or write `groups`"):
        schema_of({"type": "category", "levels": {"private": 2}, "group": {"codes": ["a", "b"]}})
    (tmp_path / "c.csv").write_text("code,label\n1,A\n2,B\n3,C\n")
    listed = "  c: {type: category, codes: c.csv, "
    for keys, words in [
        ("levels: {private: 1, rest: drawn}, groups: {codes: [1, 2]}}", "remove `groups`"),
        ("levels: {1: A}}", "give levels or codes, not both"),
    ]:
        text = f"version: 1\ntitle: t\ncolumns:\n{listed}{keys}\n"
        (tmp_path / "s.yaml").write_text(text)
        with pytest.raises(BadInput, match=words):
            load_schema(tmp_path / "s.yaml")


def test_groups_of_one_level_each_leave_nothing_to_keep():
    with pytest.raises(BadInput, match=r"not kept: make fewer groups\."):
        schema_of(
            DRAWN | {"levels": {"private": 1, "rest": "drawn"}, "groups": {"x": ["a"], "y": ["b"]}}
        )


def test_a_code_list_without_a_hierarchy_is_one_group(tmp_path):
    (tmp_path / "c.csv").write_text("code,label\n1,A\n2,B\n3,C\n")
    (tmp_path / "s.yaml").write_text(
        "version: 1\ntitle: t\ncolumns:\n"
        "  c: {type: category, codes: c.csv, levels: {private: 1, rest: drawn}}\n"
    )
    schema = load_schema(tmp_path / "s.yaml")
    assert schema.columns[0].choice.groups == ("levels",)
    assert [level.label for level in schema.columns[0].levels] == ["A", "other levels"]
    assert parse_schema(schema.document) == schema


def test_without_noise_to_speak_of_the_set_has_the_shares_of_all_levels(tmp_path):
    plan = plan_of(tmp_path, "", schema=SCHEMA, method="independent", privacy="{epsilon: 1000}")
    data = data_of(plan.spec.schema)
    outcome = carry_out(plan, MemoryCounter(data))
    job = outcome.plan.spec.schema.columns[0]
    # "g" is frequent but the only level of its group, whose code is its own.
    assert [level.label for level in job.levels] == [
        *("a", "d", "e"),
        *("other one", "other two", "other three"),
    ]
    counts = np.bincount(data.column("job"), minlength=8)
    weights = weights_of(range(8), job.choice.pieces)
    for members in ([1, 2], [5]):
        shares = weights[members] / weights[members].sum()
        assert shares == pytest.approx(counts[members] / counts[members].sum(), abs=0.01)

    drawn = sample(outcome.plan, outcome.models, 1)
    table = decode_piece(outcome.plan, drawn, 1, 0)
    labels = table.column("job").to_pylist()
    found = np.array([labels.count(name) for name in (*"abcdefg", None)])
    assert np.abs(found - counts).max() < 0.02 * ROWS
    # What is read back from the set are the codes that were drawn, level by level.
    for column in outcome.plan.spec.schema.columns:
        values = table.column(column.name).combine_chunks()
        assert (codes_of(column, values) == drawn.column(column.name)).all()


def test_levels_are_drawn_by_their_weights_and_encode_to_their_code():
    column = with_choices(schema_of(DRAWN), {"job": CHOSEN}).columns[0]
    assert column.choice.level_codes() == (0, 1, 3, 2, 4, 4, 5)
    codes = np.repeat(np.arange(7, dtype=np.uint16), 30_000)
    schema = with_choices(schema_of(DRAWN), {"job": CHOSEN})
    table = decode(schema, Dataset(schema.domain, codes[None]), rng=np.random.default_rng(3))
    values = table.column("job").combine_chunks()
    assert (codes_of(column, values) == codes).all()
    found = values.to_pylist()
    assert {*found[:90_000]} == {"a", "b", "d"}
    of_two = found[4 * 30_000 : 5 * 30_000]
    # Weights 2 and 4: five standard deviations of 30,000 draws are 408.
    assert abs(of_two.count("e") - 10_000) < 408
    assert {*of_two} == {"e", "f"}
    assert {*found[180_000:]} == {None}
    # In the codes of the file, in which 7 is missing.
    again = stored_codes(column, codes, rng=np.random.default_rng(4))
    assert (recoding(schema).codes("job", again) == codes).all()


def test_merged_levels_still_cannot_be_told_apart():
    column = with_choices(schema_of(MERGED), {"job": Chosen((0, 1, 3))}).columns[0]
    with pytest.raises(ValueError, match="chosen privately"):
        stored_codes(column, np.array([4], np.uint16), rng=np.random.default_rng(1))


def test_levels_whose_differences_noise_explains_are_equally_likely():
    noise = np.rint(np.random.default_rng(2).normal(0, 30, 500)).astype(int).tolist()
    groups = [0] * 500
    assert pieces_of_levels([9000, 8000, *noise[2:]], groups, (0, 1), 900.0) == ((0, 0), (2, 498))
    # Without noise to speak of the weights are the counts, and none is negative.
    clear = [9000, 40, 10, 10, -3]
    found = weights_of(range(6), pieces_of_levels(clear, [0] * 5, (0,), 1e-6))
    assert found[1:] / found[1:].sum() == pytest.approx(np.array([40, 10, 10, 0]) / 60, abs=1e-4)


def test_a_group_always_keeps_a_level_to_draw():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = [*range(4), *rng.integers(0, 4, 20).tolist()]
        counts = rng.integers(-50, 50, 24).tolist()
        kept = rng.permutation(np.arange(4, 24))[:9].tolist()
        weights = weights_of(range(25), pieces_of_levels(counts, groups, kept, 25.0))
        weights[kept] = 0
        assert (np.bincount(groups, weights) > 0).all()


def test_the_choice_is_stated_and_read_back():
    schema = schema_of(DRAWN)
    made = with_choices(schema, {"job": CHOSEN})
    (entry,) = statement(made)
    assert entry["within"] == {"from": [0, 3, 4, 5, 6], "thousandths": [6, 7, 2, 4, 1]}
    assert read_statement(statement(made)) == {"job": CHOSEN}
    assert made.document == schema.document


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        ((1, 3),),
        ((0, 3), (3, 0)),
        ((0, 3), (3, 7), (4, 0), (6, 1)),
        ((0, 3), (7, 1)),
        ((0, 3), (3, -1), (4, 1)),
        ((0, 3), (4, 1), (3, 1)),
    ],
)
def test_a_spread_that_cannot_have_been_made_is_refused(pieces):
    with pytest.raises(ValueError, match="does not allow"):
        with_choices(schema_of(DRAWN), {"job": Chosen(CHOSEN.codes, pieces)})


def test_the_codebook_names_the_levels_of_the_sets_and_the_groups_of_the_tables():
    described = field(with_choices(schema_of(DRAWN), {"job": CHOSEN}).columns[0])
    assert described["constraints"]["enum"] == [*"abcdefg"]
    assert [each["code"] for each in described["levels"]] == [0, 1, 3, 2, 4, 4, 5]
    assert [each["label"] for each in described["groups"]] == [
        *("other one", "other two", "other three")
    ]
    merged = field(with_choices(schema_of(MERGED), {"job": Chosen((0, 1, 3))}).columns[0])
    assert "groups" not in merged


def test_a_question_about_a_level_of_a_group_says_where_it_is_counted():
    column = with_choices(schema_of(DRAWN), {"job": CHOSEN}).columns[0]
    assert level_code(column, "other two") == 4
    with pytest.raises(BadInput, match="count it in 'other two'"):
        level_code(column, "e")
    with pytest.raises(BadInput, match="no level 'z'"):
        level_code(column, "z")
