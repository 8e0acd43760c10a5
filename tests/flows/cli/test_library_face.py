"""The library gives the answers of the commands: same numbers, same sentences, same classes."""

import json
import shutil
from pathlib import Path

import pytest

import dp_core as dp
from dp_core.text.pages.python_words import in_python


@pytest.fixture(scope="module")
def first(town_folder):
    return dp.read_bundle(town_folder / "first")


def plain(answer):
    """Return an answer as the command prints it."""
    return json.loads(json.dumps(answer.to_json(), default=str))


@pytest.mark.parametrize(
    ("question", "words", "options"),
    [
        ("share by sex, age", (), {}),
        ("mean of income by sex", ("--sampling",), {"sampling": True}),
        ("difference in mean of income between sex = 1 and sex = 2", (), {}),
        ("count where age >= 30", ("--level", "0.9"), {"level": 0.9}),
        ("count by age, region", (), {}),
    ],
)
def test_query_is_the_command(first, command, question, words, options):
    answer = first.query(question, **options)
    said = command("query", first.folder, question, *words, "--json")

    assert plain(answer) == said.json
    assert answer.exit_code == said.code


@pytest.mark.parametrize(
    ("formula", "words", "options"),
    [
        ("income ~ age + sex", (), {}),
        ("income ~ age + region", ("--level", "0.99"), {"level": 0.99}),
        ("sex ~ income", ("--family", "logit"), {"family": "logit"}),
    ],
)
def test_infer_is_the_command(first, command, formula, words, options):
    answer = first.infer(formula, **options)

    assert plain(answer) == command("infer", first.folder, formula, *words, "--json").json


def test_verify_is_the_command(first, command, tmp_path):
    assert plain(first.verify()) == command("verify", first.folder, "--json").json

    folder = Path(shutil.copytree(first.folder, tmp_path / "copy"))
    bundle = dp.read_bundle(folder)
    (folder / "report.html").write_text("changed")
    said = command("verify", folder, "--json")
    assert plain(bundle.verify()) == said.json
    assert bundle.verify().exit_code == said.code == 1


def test_people_are_shown_the_same_in_the_terminal(first, command, monkeypatch):
    # As wide as the command's output is without a terminal.
    monkeypatch.setenv("COLUMNS", "200")
    for words, answer in (
        (("query", "share by sex, age"), first.query("share by sex, age")),
        (("infer", "income ~ age + region"), first.infer("income ~ age + region")),
    ):
        name, text = words
        out = command(name, first.folder, text).out
        assert in_python(" ".join(out.split())) == " ".join(str(answer).split())


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("query", "count by seks"), lambda bundle: bundle.query("count by seks")),
        (("query", "count of"), lambda bundle: bundle.query("count of")),
        (("infer", "income ~ aeg"), lambda bundle: bundle.infer("income ~ aeg")),
        (
            ("infer", "income ~ age", "--weighted"),
            lambda bundle: bundle.infer("income ~ age", weighted=True),
        ),
        (
            ("infer", "income ~ age", "--design"),
            lambda bundle: bundle.infer("income ~ age", design=True),
        ),
        (
            ("infer", "income ~ age", "--family", "poison"),
            lambda bundle: bundle.infer("income ~ age", family="poison"),
        ),
    ],
)
def test_a_mistake_is_the_sentence_of_the_command(first, command, words, call):
    name, *rest = words
    said = command(name, first.folder, *rest)
    with pytest.raises(dp.BadInput) as wrong:
        call(first)

    sentence = in_python(said.err.partition(" (runbook: ")[0].rstrip())
    assert sentence == f"dp-release: {wrong.value.message}"
    assert said.code == wrong.value.exit_code


def test_what_is_no_bundle_is_the_sentence_of_the_command(command, tmp_path):
    said = command("query", tmp_path / "none", "count")
    with pytest.raises(dp.BadInput) as wrong:
        dp.read_bundle(tmp_path / "none")

    assert said.err.rstrip() == f"dp-release: {wrong.value.message}"
