"""The file of a question desk: what it says, and what is refused with its line."""

from fractions import Fraction

import pytest

from dp_core.errors import BadInput
from dp_core.plan.question_desk import load_desk
from tests.specs import SCHEMA

DESK = """\
version: 1
account: town
data: data.csv
schema: schema.yaml
privacy: {delta: 1e-9, neighbours: replace-one}
largest_epsilon: 0.5
answers: after-approval
users: {anna: {account: town-anna}, bert: {account: town-bert}}
"""


@pytest.fixture
def write(tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)

    def written(text=DESK, **changes):
        for key, line in changes.items():
            lines = [one for one in text.splitlines() if not one.startswith(f"{key}:")]
            text = "\n".join([*lines, f"{key}: {line}" if line else ""]) + "\n"
        path = tmp_path / "questions.yaml"
        path.write_text(text)
        return path

    return written


def test_a_desk_states_its_terms(write):
    found = load_desk(write())
    assert (found.account, found.data, found.schema.title) == ("town", "data.csv", "Small survey")
    assert (found.delta, found.neighbours) == (Fraction(1, 10**9), "replace-one")
    assert (found.largest_epsilon, found.answers) == (Fraction(1, 2), "after-approval")
    assert found.users == {"anna": "town-anna", "bert": "town-bert"}


def test_what_is_left_out_has_a_default(write):
    found = load_desk(write(answers="", users="", privacy="{delta: 0}"))
    assert (found.answers, found.users, found.neighbours) == ("at-once", {}, "add-remove")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"privacy": "{epsilon: 1, delta: 0}"}, "privacy.epsilon: each question states its own"),
        ({"privacy": "{delta: 2}"}, "privacy.delta: must be less than 1"),
        ({"privacy": "{neighbours: add-remove}"}, "'delta' is missing"),
        ({"largest_epsilon": "0"}, "largest_epsilon: '0' must be from 1e-12 to 100"),
        ({"largest_epsilon": ""}, "'largest_epsilon' is missing"),
        ({"answers": "atonce"}, "Did you mean 'at-once'"),
        ({"users": "{anna: town-anna}"}, "users.anna"),
        ({"users": "{anna: {account: town}}"}, "is the account of the desk itself"),
        ({"users": "{a/b: {account: x}}"}, "not a valid name of a desk user"),
        ({"users": "{}"}, "is empty"),
        ({"schema": "schem.yaml"}, "schema.yaml"),
        ({"data": "data.yaml"}, "is a YAML file"),
        ({"account": "a b"}, "not a valid name of an account"),
        ({"epsilon": "1"}, "there is no key 'epsilon' here"),
        ({"version": "2"}, "must be 1"),
        ({"release": "x"}, "is a release spec, not a question desk"),
    ],
)
def test_a_mistake_is_refused_with_its_place(write, changes, says):
    with pytest.raises(BadInput) as refused:
        load_desk(write(**changes))
    assert says in refused.value.message
    assert "questions.yaml" in refused.value.message


def test_all_mistakes_are_listed_at_once(write):
    with pytest.raises(BadInput) as refused:
        load_desk(write(account="a b", largest_epsilon="-1", answers="never"))
    assert len(refused.value.faults) == 3


def test_a_file_that_is_not_there_says_how_to_write_one(tmp_path):
    with pytest.raises(BadInput, match="largest_epsilon"):
        load_desk(tmp_path / "questions.yaml")
