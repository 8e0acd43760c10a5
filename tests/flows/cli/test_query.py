"""`dp-release query`: numbers, CSV, JSON, and a sentence for what cannot be answered."""

import csv
import json

import numpy as np
import pytest

from dp_core.analysis.query.query_answer import QueryAnswer, cell_key
from dp_core.client.released import tables_of
from tests.dp_core.bundle.conftest import NASTY, make_published, write


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of public values."""
    folder = tmp_path_factory.mktemp("query")
    published, data = make_published(sets=3, rows=400, planned_rows=400, records=400.0)
    return write(folder / "bundle", published, data, folder / "scratch"), published


def test_the_answer_has_one_object_for_each_group(bundle, command):
    folder, published = bundle
    answer = command("query", folder, "count by sex", "--json").json

    assert answer["question"] == "count by sex"
    assert answer["determined"] is True
    assert (answer["unit"], answer["level"], answer["covers"]) == ("records", 0.95, "noise")
    assert [cell["sex"] for cell in answer["cells"]] == ["1", "2", "3", "(missing)"]
    assert answer["labels"]["sex"]["2"] == "male"
    for code, cell in enumerate(answer["cells"]):
        assert cell["low"] < cell["estimate"] < cell["high"]
        assert cell["margin"] == pytest.approx((cell["high"] - cell["low"]) / 2)
        # The estimate pools three tables: near each of them for its noise.
        for table in tables_of(published.released):
            if "sex" in table.clique:
                axis = table.clique.index("sex")
                noisy = np.moveaxis(table.values, axis, 0).reshape(4, -1)[code].sum()
                cells = table.values.size / 4
                assert abs(noisy - cell["estimate"]) < 6 * table.scale * cells**0.5


def test_the_terminal_shows_labels_and_says_what_the_margin_covers(bundle, command):
    folder, _ = bundle
    out = command("query", folder, "share by sex").out

    assert "female" in out
    assert NASTY in out
    assert "%" in out
    assert "privacy noise only" in out
    assert "random sample" in command("query", folder, "share by sex", "--sampling").out


def test_csv_has_the_labels_of_the_synthetic_sets(bundle, command):
    folder, _ = bundle
    text = command("query", folder, "mean of born by sex", "--csv").out
    header, *rows = list(csv.reader(text.splitlines()))

    assert header == ["sex", "estimate", "margin", "low", "high", "margin_without_bins"]
    assert [row[0] for row in rows] == ["female", "male", NASTY, "(missing)"]
    assert all(row[3] <= row[1] <= row[4] and row[1].startswith("200") for row in rows)


def test_the_question_needs_no_quotes(bundle, command):
    folder, _ = bundle
    one = command("query", folder, "count", "by", "sex", "--json").json

    assert one == command("query", folder, "count by sex", "--json").json


def test_what_is_not_determined_ends_with_code_2_and_names_the_missing_table(bundle, command):
    folder, _ = bundle
    said = command("query", folder, "mean of age by born")
    assert (said.code, said.out) == (2, "")
    assert "age and born" in said.err
    assert "age x born" in said.err

    found = command("query", folder, "mean of age by born", "--json")
    assert found.code == 2
    answer = json.loads(found.out)
    assert answer["determined"] is False
    assert answer["cells"] == []
    assert answer["missing"] == [["age", "born"]]
    assert answer["needed"]["columns"] == ["age", "born"]
    assert answer["needed"]["margin"] > 0
    assert command("query", folder, "mean of age by born", "--csv").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("count by seks",), "'seks'"),
        (("count by sex", "--level", "95"), "between 0 and 1"),
        (("count by sex", "--csv", "--json"), "not both"),
        (("",), "empty"),
    ],
)
def test_a_mistake_is_one_sentence(bundle, command, words, said):
    answer = command("query", bundle[0], *words)

    assert answer.code == 2
    assert said in (answer.err or answer.out)


def test_a_column_with_the_name_of_a_number_keeps_its_own_key():
    assert cell_key("sex") == "sex"
    for name in ("low", "margin_without_bins"):
        assert cell_key(name) not in (name, "sex")


def test_no_label_or_column_of_the_csv_is_a_formula_in_a_spreadsheet():
    texts = ('=cmd("x")', "+1", "-x", "@x", "-10 to -5", "-9", "Yes")
    number = {"estimate": -2.5, "margin": 1.5, "low": -4.0, "high": -1.0, "determined": True}
    answer = QueryAnswer(
        folder="first",
        release="survey",
        question="count by =sex",
        measure="count",
        unit="records",
        level=0.95,
        covers="noise",
        determined=True,
        columns=("=sex",),
        labels={"=sex": {str(code): text for code, text in enumerate(texts)}},
        cells=tuple({"=sex": str(code), **number} for code in range(len(texts))),
        notes=(),
    )
    header, *rows = csv.reader(answer.csv().splitlines())

    assert header == ["'=sex", "estimate", "margin", "low", "high"]
    written = [row[0] for row in rows]
    assert written == ['\'=cmd("x")', "'+1", "'-x", "'@x", "'-10 to -5", "-9", "Yes"]
    assert {tuple(row[1:]) for row in rows} == {("-2.5", "1.5", "-4.0", "-1.0")}
