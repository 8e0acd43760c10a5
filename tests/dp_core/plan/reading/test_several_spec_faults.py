"""Faults of single keys of a spec are listed together with those of its schema."""

import pytest

from dp_core.errors import BadInput
from dp_core.plan.reading.spec_file import load_spec

SCHEMA = "version: 1\ntitle: t\ncolumns:\n  age: {type: integer, min: 0, max: 9}\n"
SPEC = """\
version: 1
release: r
data: d.csv
schema: s.schema.yaml
account: a
privacy: {epsilon: 1, delta: 1e-9}
"""


def faults(folder, spec, schema=SCHEMA):
    (folder / "s.schema.yaml").write_text(schema)
    (folder / "r.yaml").write_text(spec)
    with pytest.raises(BadInput) as caught:
        load_spec(folder / "r.yaml")
    return caught.value


def test_faults_of_every_key_and_of_the_schema_are_listed_together(tmp_path):
    spec = SPEC.replace(": r\n", ": r r\n").replace("account: a", "account: a a")
    spec = spec.replace("epsilon: 1", "epsilon: one") + "method: fast\npublish: maybe\n"
    error = faults(tmp_path, spec, SCHEMA.replace("integer", "int"))
    assert [(one.file, one.line, one.key) for one in error.faults] == [
        ("r.yaml", 2, "release"),
        ("r.yaml", 5, "account"),
        ("r.yaml", 6, "privacy.epsilon"),
        ("r.yaml", 7, "method"),
        ("r.yaml", 8, "publish"),
        ("s.schema.yaml", 4, "columns.age.type"),
    ]
    lines = error.message.splitlines()
    assert lines[0] == "r.yaml has 6 faults:"
    assert lines[-1].startswith("- s.schema.yaml, line 4, columns.age.type: 'int' is not one of")


def test_missing_keys_are_listed_unless_another_is_misspelt(tmp_path):
    error = faults(tmp_path, SPEC.replace("account: a\n", "").replace("release: r\n", ""))
    assert [one.text for one in error.faults] == [
        "the key 'release' is missing; add it.",
        "the key 'account' is missing; add it.",
    ]
    error = faults(tmp_path, SPEC.replace("account", "acount").replace("release: r", "relase: r"))
    assert [one.line for one in error.faults] == [2, 5]
    assert all("Did you mean" in one.text for one in error.faults)


def test_schema_and_data_in_each_other_s_place_are_two_faults(tmp_path):
    swapped = SPEC.replace("d.csv", "X").replace("s.schema.yaml", "d.csv")
    error = faults(tmp_path, swapped.replace("X", "s.schema.yaml"))
    assert [(one.line, one.key) for one in error.faults] == [(3, "data"), (4, "schema")]


def test_one_fault_is_one_sentence(tmp_path):
    error = faults(tmp_path, SPEC.replace("epsilon: 1", "epsilon: 0"))
    assert error.message == ("r.yaml, line 6, privacy.epsilon: must be greater than 0, not '0'.")
