"""`dp-release query --since`: changes between two releases, and releases that do not compare."""

import copy
import dataclasses
import datetime
import itertools
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from dp_core.analysis.notebook.open_bundle import read_bundle
from dp_core.analysis.query.comparable import _release_notes, check_releases
from dp_core.bundle import reading
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.ledger.receipts import make_receipt
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.bundle import conftest
from tests.dp_core.bundle.conftest import Survey, make_published, make_schema, write
from tests.panel_files import panel_document

CLIQUES = (("sex", "age"), ("sex", "height", "born"))


def survey(change=None, *, seed=3, more=0.0):
    """A file with the schema of other tests, or a changed one."""
    document = copy.deepcopy(dict(make_schema().document))
    columns = {name: each for entry in document["columns"] for name, each in entry.items()}
    columns["sex"]["levels"] = {
        text: label for one in columns["sex"]["levels"] for text, label in one.items()
    }
    document["columns"] = columns
    if change is not None:
        change(document)
    schema = parse_schema(document)
    rng = np.random.default_rng(seed)
    codes = [
        np.minimum(rng.poisson(size / 3 + more, 1000), size - 1) for size in schema.domain.sizes
    ]
    return Survey(schema, Dataset(schema.domain, np.stack(codes).astype(np.uint16)), CLIQUES)


def made(folder, *, created="2026-11-20", **options):
    folder.mkdir()

    def dated(**fields):
        return make_receipt(**{**fields, "at": created})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conftest, "make_receipt", dated)
        published, data = make_published(
            sets=2, rows=400, planned_rows=400, records=400.0, **options
        )
    day = datetime.datetime.fromisoformat(created).replace(tzinfo=datetime.UTC)
    published = dataclasses.replace(published, created=day)
    return write(folder / "bundle", published, data, folder / "scratch")


@pytest.fixture(scope="module")
def waves(tmp_path_factory):
    """Bundles of two files."""
    folder = tmp_path_factory.mktemp("since")
    return (
        made(folder / "old", survey=survey()),
        made(folder / "new", survey=survey(seed=4, more=0.4)),
    )


def test_each_group_has_its_change_and_what_noise_explains(waves, command):
    old, new = waves
    answer = command("query", new, "count by sex", "--since", old, "--json").json
    ends = [command("query", each, "count by sex", "--json").json["cells"] for each in waves]

    assert (answer["folder"], answer["since"]) == (str(new), str(old))
    assert (answer["covers"], answer["unit"], answer["determined"]) == ("noise", "records", True)
    assert len(answer["cells"]) == 4
    for cell, earlier, later in zip(answer["cells"], *ends, strict=True):
        assert cell["sex"] == later["sex"]
        assert cell["earlier"] == earlier["estimate"]
        assert cell["change"] == pytest.approx(later["estimate"] - earlier["estimate"])
        assert cell["margin"] == pytest.approx(np.hypot(earlier["margin"], later["margin"]))
        assert cell["noise_explains"] == cell["margin"]
        within = abs(cell["change"]) <= cell["margin"]
        assert cell["explained_by"] == ("noise" if within else None)
    assert {cell["explained_by"] for cell in answer["cells"]} == {"noise", None}


def test_the_terminal_says_what_is_more_than_noise(waves, command):
    old, new = waves
    out = command("query", new, "share of sex", "--since", old).out
    assert "within the noise" in out
    assert "more than noise" in out
    assert "changes in percentage points" in out
    assert "noise of both releases only" in out
    sampled = command("query", new, "share of sex", "--since", old, "--sampling").out
    assert "panel" in sampled
    assert "noise and sampling" in sampled


def test_python_gives_the_same_answer(waves, command):
    old, new = map(read_bundle, waves)
    answer = new.query("mean of age by sex", since=old)
    assert (
        answer.to_json()
        == command("query", waves[1], "mean of age by sex", "--since", waves[0], "--json").json
    )
    assert [*answer.frame.columns][:4] == ["sex", "earlier", "later", "change"]
    assert len(answer.frame) == len(answer.cells)
    with pytest.raises(TypeError, match="read_bundle"):
        new.query("count by sex", since=str(waves[0]))


def test_a_question_that_one_release_does_not_determine_names_it(waves, command, tmp_path):
    old, _ = waves
    less = dataclasses.replace(survey(seed=9), cliques=CLIQUES[:1])
    new = made(tmp_path / "new", survey=less)
    said = command("query", new, "count by sex, born", "--since", old)
    assert (said.code, said.out) == (2, "")
    assert f"In {new}: Not determined" in said.err
    said = command("query", new, "count by sexx", "--since", old)
    assert said.code == 2
    assert f"In {old}: There is no column 'sexx'" in said.err


def test_the_same_release_and_the_same_tables_are_refused(waves, command, tmp_path):
    old, _ = waves
    copied = tmp_path / "copy"
    shutil.copytree(old, copied)
    said = command("query", copied, "count by sex", "--since", old)
    assert said.code == 2
    assert "are the same release" in said.err
    bundle = reading.read_bundle(old)
    with pytest.raises(BadInput, match="use the same noisy tables"):
        check_releases(dataclasses.replace(bundle, folder=None), bundle)


def test_records_of_another_kind_are_noted():
    """A row of a survey is no person of a panel, though both are called records."""
    columns = survey().schema.document["columns"]
    schemas = [
        parse_schema(panel_document()),
        *(
            parse_schema({"version": "1", "title": "T", "columns": columns, **unit})
            for unit in ({}, {"unit": {"column": "id", "max_rows": "1"}})
        ),
    ]
    found = [SimpleNamespace(folder=None, claims=SimpleNamespace(schema=each)) for each in schemas]
    for one, other in itertools.permutations(range(3), 2):
        assert any("A record is" in note for note in _release_notes(found[one], found[other]))
    assert not any("A record is" in note for note in _release_notes(found[0], found[0]))


def test_the_order_of_dates_and_other_titles_are_noted(waves, command, tmp_path):
    _, new = waves
    other = made(
        tmp_path / "later",
        created="2026-12-01",
        survey=survey(lambda document: document.update(title="Another town"), seed=8),
    )
    out = " ".join(command("query", new, "count by sex", "--since", other).out.split())
    assert "was made on 2026-12-01, after the other one" in out
    assert "The titles of the releases differ: 'Another town' (earlier)" in out
    out = command("query", other, "count by sex", "--since", new).out
    assert "after the other one" not in out


def test_levels_of_one_release_only_are_left_out_and_named(waves, command, tmp_path):
    old, _ = waves

    def change(document):
        levels = document["columns"]["sex"]["levels"]
        levels["9"] = "diverse"
        del levels["3"]

    new = made(tmp_path / "new", survey=survey(change, seed=8))
    answer = command("query", new, "count by sex", "--since", old, "--json").json
    assert [cell["sex"] for cell in answer["cells"]] == ["1", "2", "(missing)"]
    (note,) = (each for each in answer["notes"] if "left out" in each)
    assert "diverse (later)" in note
    assert "(earlier)" in note


def test_a_text_that_means_another_level_is_refused(waves, command, tmp_path):
    old, _ = waves

    def exchange(document):
        levels = document["columns"]["sex"]["levels"]
        levels["1"], levels["2"] = levels["2"], levels["1"]

    new = made(tmp_path / "new", survey=survey(exchange, seed=8))
    said = command("query", new, "count where sex = 1", "--since", old)
    assert said.code == 2
    assert "`sex = male`" in said.err
    assert "`sex = female`" in said.err
    assert "write the label" in said.err
    # By its label, the level is found under both texts.
    answer = command("query", new, "count by sex", "--since", old, "--json").json
    counts = command("query", old, "count where sex = female", "--json").json["cells"]
    (cell,) = (each for each in answer["cells"] if answer["labels"]["sex"][each["sex"]] == "female")
    assert cell["sex"] == "2"
    assert cell["earlier"] == counts[0]["estimate"]


def test_bins_that_differ_are_matched_by_their_edges(waves, command, tmp_path):
    old, _ = waves

    def finer(document):
        document["columns"]["height"]["edges"] = ["1", "1.25", "1.5", "1.75", "2"]

    def other(document):
        document["columns"]["height"]["edges"] = ["1", "1.3", "1.6", "2"]

    new = made(tmp_path / "finer", survey=survey(finer, seed=8))
    answer = command("query", new, "count by height", "--since", old, "--json").json
    assert [cell["height"] for cell in answer["cells"]] == ["[1.5, 1.75)", "[1.75, 2]"]
    assert any("Bins of height that only one release has" in note for note in answer["notes"])
    answer = command("query", new, "mean of height", "--since", old, "--json").json
    assert any("bins of height differ" in note for note in answer["notes"])
    new = made(tmp_path / "other", survey=survey(other, seed=8))
    said = command("query", new, "count by height", "--since", old)
    assert said.code == 2
    assert "No group is in both releases" in said.err


def test_levels_and_numbers_do_not_compare(waves, command, tmp_path):
    old, _ = waves

    def change(document):
        document["columns"]["height"] = {"type": "ordinal", "levels": ["low", "high"]}

    new = made(tmp_path / "new", survey=survey(change, seed=8))
    said = command("query", new, "count by height", "--since", old)
    assert said.code == 2
    assert "'height' has levels in" in said.err
