"""Public records in the codes of a schema: what is matched, what is not, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import dp_core as dp
from dp_core.analysis.notebook.schemas import read_schema
from dp_core.errors import BadInput
from dp_core.priors.prior_records import prior_of_file, prior_of_frames, prior_of_release

SCHEMA = {
    "version": 1,
    "title": "A town",
    "rows_about": 600,
    "columns": {
        "sex": {"type": "category", "levels": {1: "male", 2: "female"}},
        "health": {"type": "ordinal", "levels": ["poor", "fair", "good"], "missing": "level"},
        "age": {"type": "integer", "min": 0, "max": 99, "edges": [0, 18, 65, 100]},
    },
}
BY = {"by": "officer", "reason": "open data"}


def schema():
    return read_schema(SCHEMA)


def people(rows=600, seed=1):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    health = np.where(rng.random(rows) < age / 120, "poor", "good")
    return pd.DataFrame({"sex": rng.integers(1, 3, rows), "health": health, "age": age})


def code(frame, column):
    found = prior_of_frames([frame], schema())
    return found.sets[0][found.domain.columns.index(column)].tolist()


def test_levels_are_matched_by_text_and_by_label():
    frame = pd.DataFrame({"sex": ["1", "female", "male"], "age": [5, 20, 70]})
    assert code(frame, "sex") == [0, 1, 0]
    assert code(frame, "age") == [0, 1, 2]


def test_a_missing_value_is_the_missing_level_if_the_schema_has_one():
    frame = pd.DataFrame({"sex": [1] * 12, "health": ["poor", None] * 6})
    assert code(frame, "health")[:2] == [0, 3]


def test_a_few_unknown_values_are_left_out_of_the_tables_of_their_column():
    frame = people()
    frame["sex"] = frame["sex"].astype(object)
    frame.loc[:9, "sex"] = "other"
    found = prior_of_frames([frame], schema())
    assert found.notes == ()
    assert found.counts(("sex", "age"))[0].sum() == 590
    assert found.counts(("health", "age"))[0].sum() == 600


def test_a_column_whose_values_do_not_fit_is_not_used_and_a_note_says_so():
    found = prior_of_frames([people().assign(sex="x")], schema())
    assert found.domain.columns == ("health", "age")
    assert "'sex'" in found.notes[0]
    assert "100%" in found.notes[0]


def test_a_column_that_is_missing_has_a_note():
    found = prior_of_frames([people()[["age", "sex"]]], schema())
    assert found.domain.columns == ("sex", "age")
    assert found.notes == ("Column 'health' is not in the prior.",)


def test_records_that_fit_in_no_two_columns_are_refused():
    with pytest.raises(BadInput, match="fewer than two columns"):
        prior_of_frames([people()[["age"]]], schema())


@pytest.mark.parametrize("name", ["public.csv", "public.csv.gz", "public.parquet"])
def test_files_of_each_kind_give_the_codes_of_the_frame(tmp_path, name):
    frame, path = people().assign(more=1), tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    found = prior_of_file(path, schema(), **BY)
    of_frame = prior_of_frames([people()], schema())
    assert np.array_equal(found.sets[0], of_frame.sets[0])
    assert dict(found.document) | BY == dict(found.document)


def test_another_byte_in_the_file_is_another_hash(tmp_path):
    path = tmp_path / "public.csv"
    hashes = set()
    for rows in (600, 599):
        people(rows).to_csv(path, index=False)
        hashes.add(dict(prior_of_file(path, schema(), **BY).document)["sha256"])
    assert len(hashes) == 2


@pytest.mark.parametrize("content", [None, "", "other\n1\n", "sex,age\n"])
def test_a_file_that_tells_nothing_is_refused(tmp_path, content):
    path = tmp_path / "public.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput, match=r"public\.csv|columns"):
        prior_of_file(path, schema(), **BY)


def test_a_release_in_memory_takes_a_frame_and_a_release_as_prior():
    first = dp.release(people(), SCHEMA, sets=2)
    for prior in (people(seed=2), first):
        made = dp.release(people(seed=3), SCHEMA, sets=2, prior=prior)
        assert made.plan.to_json()["spec"]["prior"]["frame"] == "in memory"
        assert len(made.sets) == 2


def test_a_path_of_a_file_is_no_prior_in_memory(tmp_path):
    people().to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(BadInput, match="cannot check in the ledger"):
        dp.release(people(), SCHEMA, prior=tmp_path / "public.csv")


def test_a_saved_release_in_memory_is_no_bundle(tmp_path):
    folder = dp.release(people(), SCHEMA, sets=2).save(tmp_path / "saved")
    with pytest.raises(BadInput, match="not a bundle"):
        prior_of_release(folder, schema())
