"""The sample design of a schema: what is accepted, and what each mistake is told."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.survey.primary_units import primary_units
from dp_core.schema.survey.survey_design import NO_SURVEY, Replicates

Y = {"type": "integer", "min": "0", "max": "9"}
PSU = {"type": "category", "levels": ["a1", "a2", "b1", "b2"], "role": "cluster"}
PLAIN = {"type": "category", "levels": ["A", "B"], "role": "stratum"}
STRATUM = PLAIN | {"follows": "psu", "map": {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}}
BOTH = {"y": Y, "psu": PSU, "stratum": STRATUM}
NESTED = {"y": Y, "psu": PSU | {"levels": ["1", "2"]}, "stratum": PLAIN}


def read(columns, **keys):
    return parse_schema({"version": "1", "title": "x", "columns": columns, **keys})


def test_a_stratum_that_follows_the_cluster_gives_the_design():
    schema = read(BOTH)
    units = primary_units(schema)

    assert (schema.cluster.name, schema.stratum.name) == ("psu", "stratum")
    assert schema.states_design
    assert schema.survey == NO_SURVEY
    assert units.columns == ("psu",)
    assert units.pairs.tolist() == [[0, 0], [0, 1], [1, 2], [1, 3]]
    assert units.strata.tolist() == [0, 0, 1, 1]


def test_codes_can_be_counted_within_strata_and_rules_leave_pairs_out():
    columns = NESTED | {"psu": PSU | {"levels": ["1", "2", "3"]}}
    schema = read(columns, survey={"nested": "true"}, impossible=[{"stratum": "A", "psu": "3"}])
    units = primary_units(schema)

    assert units.columns == ("stratum", "psu")
    assert units.pairs.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    found = units.index((np.array([1, 0, 1]), np.array([2, 1, 0])))
    assert found.tolist() == [4, 1, 2]
    with pytest.raises(ValueError, match="in no cluster"):
        units.index((np.array([0]), np.array([2])))


def test_clusters_alone_are_one_stratum():
    assert primary_units(read({"y": Y, "psu": PSU})).strata.tolist() == [0, 0, 0, 0]
    assert primary_units(read({"y": Y, "stratum": PLAIN})) is None


@pytest.mark.parametrize(
    ("columns", "survey", "wanted"),
    [
        (BOTH, {"method": "jkn"}, Replicates(method="jkn", number=4)),
        (BOTH, {"method": "jk1", "number": "4"}, Replicates(method="jk1", number=4)),
        (BOTH, {"method": "brr"}, Replicates(method="brr", number=4)),
        (
            NESTED,
            {"method": "brr", "number": "8", "fay": "0.3"},
            Replicates(method="brr", number=8, fay=Fraction(3, 10)),
        ),
        (
            BOTH,
            {"method": "bootstrap", "number": "200"},
            Replicates(method="bootstrap", number=200),
        ),
        ({"y": Y}, {"method": "jk1", "number": "30"}, Replicates(method="jk1", number=30)),
        (
            {"y": Y, "stratum": PLAIN},
            {"method": "jkn", "number": "30"},
            Replicates(method="jkn", number=30),
        ),
    ],
)
def test_replicates_and_the_document_that_states_them(columns, survey, wanted):
    nested = {"nested": "true"} if columns is NESTED else {}
    schema = read(columns, survey={"replicates": survey, **nested})

    assert schema.survey.replicates == wanted
    again = parse_schema(schema.document)
    assert (again.survey, again.document) == (schema.survey, schema.document)


def test_numbers_a_design_effect_and_replicate_weights_of_the_file():
    schema = read(
        {"y": Y, "rep1": {"role": "replicate_weight"}, "rep2": {"role": "replicate_weight"}},
        ignore=["note"],
        survey={
            "strata": "15",
            "clusters": "30",
            "design_effect": "1.8",
            "replicate_weights": ["RW08..RW11", "main"],
        },
    )
    weights = ("rep1", "rep2", "RW08", "RW09", "RW10", "RW11", "main")

    assert schema.survey.replicate_weights == weights
    assert schema.ignore == ("note", *weights)
    assert schema.names == schema.reads == ("y",)
    assert (schema.survey.strata, schema.survey.clusters) == (15, 30)
    assert schema.survey.design_effect == Fraction(9, 5)
    again = parse_schema(schema.document)
    assert (again.survey, again.ignore) == (schema.survey, schema.ignore)
    assert again.document == schema.document


def test_replicate_weights_alone_state_no_design():
    assert not read({"y": Y}, survey={"replicate_weights": "R1..R80"}).states_design


def changed(**columns):
    return BOTH | columns


@pytest.mark.parametrize(
    ("columns", "survey", "words"),
    [
        ({"y": Y | {"role": "cluster"}}, None, ["y.role", "type: category", "ignore"]),
        ({"y": Y | {"role": "strata"}}, None, ["'strata' is not one of", "Did you mean 'stratum'"]),
        (changed(stratum=PLAIN), None, ["psu.role", "`follows: psu`", "nested: true"]),
        (changed(stratum=STRATUM | {"map": STRATUM["map"] | {"b1": "A"}}), None, ["'B' has one"]),
        (changed(second=PSU), None, ["second.role", "'psu' already has it"]),
        (changed(psu=PSU | {"missing": "level"}), None, ["cannot be missing"]),
        (
            {"y": Y, "psu": {"type": "category", "levels": ["one"], "role": "cluster"}},
            None,
            ["number of clusters (1)", "strata (1)"],
        ),
        (
            {"y": Y, "r": {"role": "replicate_weight", "type": "number", "min": "0"}},
            None,
            ["r.min", "`role: replicate_weight` is neither read nor released"],
        ),
        (BOTH, {"clusters": "4"}, ["the levels of 'psu' state this number"]),
        (BOTH, {"cluster": "4"}, ["Did you mean 'clusters'"]),
        (BOTH, "yes", ["must be a mapping"]),
        ({"y": Y}, {"nested": "true"}, ["add both"]),
        ({"y": Y}, {"strata": "15", "clusters": "15"}, ["number of clusters (15)"]),
        ({"y": Y}, {"design_effect": "0.8"}, ["below 1"]),
        ({"y": Y}, {"design_effect": "1,8"}, ["design_effect"]),
        ({"y": Y}, {"replicate_weights": "R5..R1"}, ["not a range", "RW1..RW80"]),
        ({"y": Y}, {"replicate_weights": "R1..S9"}, ["not a range"]),
        ({"y": Y}, {"replicate_weights": "R1..R9999"}, ["more than 1000"]),
        ({"y": Y}, {"replicate_weights": ["y"]}, ["'y' is also under `columns`"]),
        ({"y": Y}, {"replicate_weights": ["note"]}, ["'note' is also under `ignore`"]),
        ({"y": Y}, {"replicate_weights": ["R1..R3", "R2"]}, ["'R2' is given twice"]),
        (BOTH, {"replicates": {"number": "4"}}, ["the key 'method' is missing"]),
        (BOTH, {"replicates": {"method": "jack"}}, ["'jack' is not one of"]),
        (BOTH, {"replicates": {"method": "jkn", "number": "80"}}, ["each of the 4 clusters"]),
        (BOTH, {"replicates": {"method": "jkn", "fay": "0.3"}}, ["belongs to `method: brr`"]),
        (BOTH, {"replicates": {"method": "bootstrap"}}, ["'number' is missing", "200"]),
        (BOTH, {"replicates": {"method": "brr", "number": "10"}}, ["multiple of 4 above the 2"]),
        (BOTH, {"replicates": {"method": "brr", "number": "52"}}, ["order 52", "write 56"]),
        (BOTH, {"replicates": {"method": "brr", "fay": "1"}}, ["must be less than 1"]),
        ({"y": Y, "psu": PSU}, {"replicates": {"method": "jkn"}}, ["role: stratum"]),
        ({"y": Y, "stratum": PLAIN}, {"replicates": {"method": "brr"}}, ["two clusters in"]),
        ({"y": Y}, {"replicates": {"method": "jk1"}}, ["'number' is missing", "random groups"]),
        (
            {"y": Y, "stratum": PLAIN},
            {"replicates": {"method": "jkn", "number": "3"}},
            ["multiple of the 2 strata, and at least 4"],
        ),
    ],
)
def test_mistakes_are_told_in_one_sentence(columns, survey, words):
    keys = {"ignore": ["note"], **({} if survey is None else {"survey": survey})}
    with pytest.raises(BadInput) as caught:
        read(columns, **keys)

    for word in words:
        assert word in caught.value.message, caught.value.message


def test_a_cluster_in_two_strata_is_named():
    area = {"type": "category", "levels": ["n1", "n2", "s1"]}
    columns = {
        "y": Y,
        "area": area,
        "psu": PSU | {"levels": ["p", "q"], "follows": "area", "map": dict(n1="p", n2="q", s1="p")},
        "stratum": PLAIN | {"follows": "area", "map": dict(n1="A", n2="A", s1="B")},
    }
    with pytest.raises(BadInput, match="'p' lies in several strata"):
        read(columns)
