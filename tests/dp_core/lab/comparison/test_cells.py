import json
from dataclasses import replace

import pytest

from dp_core.lab.comparison.cells import Cell, CellStore, Declaration, Result, program

DECLARATION = Declaration("A. Person", "2026-11-21", "a public-use file")
CELL = Cell(
    file="town",
    label="privsyn",
    method="privsyn",
    epsilon="1",
    delta="1e-09",
    neighbours="add-remove",
    run=2,
    reference=False,
    definition={"format": 1, "data": "ab", "run": 2, "seed": 8},
    spec=None,
    refusal=None,
)
DONE = Result("done", {"tvd2": 0.25, "kl": None})


def test_a_result_comes_back_as_it_was(tmp_path):
    store = CellStore(tmp_path / "cells")
    assert store.read(CELL) is None
    store.write(CELL, DECLARATION, DONE)
    assert store.read(CELL) == DONE
    assert [path.name for path in store.folder.iterdir()] == [f"{CELL.key}.json"]


def test_the_declaration_comes_first_in_a_cells_file(tmp_path):
    store = CellStore(tmp_path)
    store.write(CELL, DECLARATION, DONE)
    values = json.loads(store.path(CELL).read_text())
    assert next(iter(values.items())) == (
        "declared_public",
        "Data declared public by A. Person on 2026-11-21: a public-use file",
    )
    assert (values["method"], values["epsilon"], values["run"], values["seed"]) == (
        "privsyn",
        "1",
        2,
        8,
    )


@pytest.mark.parametrize("name", ["data", "run", "seed"])
def test_whatever_defines_a_cell_changes_its_file(tmp_path, name):
    store = CellStore(tmp_path)
    store.write(CELL, DECLARATION, DONE)
    other = replace(CELL, definition={**CELL.definition, name: "other"})
    assert other.key != CELL.key
    assert store.read(other) is None


def test_words_for_people_change_nothing(tmp_path):
    store = CellStore(tmp_path)
    store.write(CELL, DECLARATION, DONE)
    assert store.read(replace(CELL, label="privsyn (other)", file="village")) == DONE


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 99}', "null"])
def test_a_file_that_cannot_be_read_is_no_result(tmp_path, content):
    store = CellStore(tmp_path)
    store.path(CELL).write_text(content)
    assert store.read(CELL) is None


def test_a_file_of_another_definition_is_no_result(tmp_path):
    store = CellStore(tmp_path)
    store.write(CELL, DECLARATION, DONE)
    values = json.loads(store.path(CELL).read_text())
    values["definition"]["data"] = "cd"
    store.path(CELL).write_text(json.dumps(values))
    assert store.read(CELL) is None


def test_the_program_is_known_by_its_sources():
    version, _, sources = program().partition("+")
    assert version[0].isdigit()
    assert len(sources) == 16
