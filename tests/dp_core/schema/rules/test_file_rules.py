"""Rules of the document are about its columns and their codes."""

import copy

import pytest

from dp_core.errors import BadInput
from dp_core.schema.rules.file_rules import FileRules, check_rules
from tests.vectors.make import DOCUMENT

SIZES = {"sex": 3, "age": 3}
ZERO = {"text": "no such", "columns": ["sex", "age"], "codes": [[0], [0, 1]]}
CLAUSE = [
    {"kind": "among", "column": "sex", "codes": [1]},
    {"kind": "at-most", "terms": [["age", 1]], "bound": 14},
]
IN_YEARS = {"column": "age", "decimals": 0, "edges": []}
RULE = {
    "text": "if",
    "key": "rules",
    "columns": ["sex", "age"],
    "clauses": [CLAUSE],
    "units": [IN_YEARS],
}
RULES = {"impossible": [ZERO], "between": [RULE], "nested": None, "members": []}


def test_complete_rules_are_accepted():
    check_rules(RULES, SIZES)
    check_rules(RULES | {"nested": {"columns": ["sex", "age"], "parents": [[0, 1, 1]]}}, SIZES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"impossible": []},
        RULES | {"impossible": None},
        RULES | {"impossible": [ZERO | {"columns": ["sex", "id"]}]},
        RULES | {"impossible": [ZERO | {"codes": [[0]]}]},
        RULES | {"impossible": [ZERO | {"codes": [[0], [True]]}]},
        RULES | {"between": [RULE | {"clauses": [[{"kind": "eval"}]]}]},
        RULES | {"between": [RULE | {"clauses": [[CLAUSE[0] | {"codes": [7]}]]}]},
        RULES | {"between": [RULE | {"clauses": [[CLAUSE[0] | {"column": "id"}]]}]},
        RULES | {"between": [RULE | {"columns": ["id"]}]},
        RULES | {"between": [RULE | {"clauses": [[CLAUSE[1] | {"terms": [["id", 1]]}]]}]},
        RULES | {"between": [RULE | {"clauses": [[CLAUSE[1] | {"terms": ["age"]}]]}]},
        RULES | {"between": [RULE | {"units": [{"column": "id"}]}]},
        RULES | {"between": [RULE | {"units": [IN_YEARS | {"edges": ["0", "x"]}]}]},
        RULES | {"members": [ZERO]},
        RULES | {"nested": {"columns": ["sex", "age"]}},
        RULES | {"nested": {"columns": ["sex", "age"], "parents": [[0, 1, 3]]}},
        RULES | {"nested": {"columns": ["sex", "age"], "parents": [[0]]}},
        None,
    ],
)
def test_rules_about_other_columns_or_codes_are_refused(wrong):
    with pytest.raises(BadInput, match="kernel's document"):
        check_rules(copy.deepcopy(wrong), SIZES)


def test_no_file_is_read_by_rules_about_other_columns():
    assert FileRules(DOCUMENT).row_rules == ()
    wrong = DOCUMENT["rules"] | {"impossible": [ZERO | {"columns": ["sex", "id"]}]}
    with pytest.raises(BadInput, match=r"rules\.impossible"):
        FileRules(DOCUMENT | {"rules": wrong})
