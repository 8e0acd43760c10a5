"""`dp-release export`: the files that it names, and how it refuses."""

from __future__ import annotations

import pytest

from dp_core.bundle.exported_sets import ENDINGS
from flows.cli.commands.bundle_commands import export
from tests.dp_core.bundle.conftest import make_published, write


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle of public values, with two sets."""
    folder = tmp_path_factory.mktemp("export")
    published, data = make_published()
    return write(folder / "bundle", published, data, folder / "scratch")


def test_the_answer_names_the_files(bundle, command, tmp_path):
    answer = command("export", bundle, "--format", "csv", "--out", "sets", "--json")

    wanted = [tmp_path / "sets" / f"set-{number}.csv" for number in (1, 2)]
    assert answer.json == {"files": list(map(str, wanted))}
    assert all(path.stat().st_size for path in wanted)


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "sas", "--out", "sets"),
        ("--format", "csv", "--out", "."),
        ("--format", "csv"),
        ("--out", "sets"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2_and_nothing_is_written(
    bundle, command, tmp_path, words
):
    (tmp_path / "mine").touch()
    answer = command("export", bundle, *words)

    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("inside", ["sets", ".", "synthetic/sets"])
def test_the_release_itself_stays_as_it_was_published(bundle, command, inside):
    assert command("export", bundle, "--format", "csv", "--out", bundle / inside).code == 2
    assert command("verify", bundle).code == 0


def test_the_shell_completes_every_format():
    (form,) = (each for each in export.params if each.name == "form")
    assert {item.value for item in form.type.shell_complete(None, form, "")} == {*ENDINGS}
