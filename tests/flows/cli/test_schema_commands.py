"""`dp-release schema draft` and `schema check` as they are command."""

import json

import pytest

DRAFT = "schema", "draft"
CODEBOOK = "variable,values,min,max\nsex,1=male; 2=female,,\nage,,0,99\n"
WHO = ("--by", "Ana Officer", "--reason", "a public-use file")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    (tmp_path / "f.csv").write_text("sex,age,new\n1,20,5017\n2,300,5018\n")
    (tmp_path / "c.csv").write_text(CODEBOOK)
    return tmp_path


def test_a_draft_from_a_codebook_is_completed_and_checked(folder, command):
    draft = command(*DRAFT, "f.csv", "--codebook", "c.csv")
    assert draft.code == 0
    assert "5017" not in draft.out
    text = draft.out.replace("title: ", "title: T ").replace("ignore: []", "ignore: [new]")
    text = "\n".join(
        line for line in text.splitlines() if "not in the codebook" not in line
        and not line.startswith("    type:  ")
    )  # fmt: skip
    (folder / "s.yaml").write_text(text + "\n")

    found = command("schema", "check", "s.yaml", "f.csv")

    assert found.code == 2
    assert "300" in found.out
    assert not (folder / "home").exists()
    (folder / "f.csv").write_text("sex,age,new\n1,20,5017\n2,30,5018\n")
    assert command("schema", "check", "s.yaml", "f.csv").code == 0


def test_the_answer_in_json_says_that_it_is_confidential(folder, command):
    (folder / "s.yaml").write_text(
        "version: 1\ntitle: t\nignore: [sex, new]\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 99}\n"
    )

    found = command("schema", "check", "s.yaml", "f.csv", "--json")
    answer = json.loads(found.out)

    assert (found.code, answer["confidential"], answer["fits"]) == (2, True, False)
    (finding,) = answer["findings"]
    assert (finding["kind"], finding["column"], finding["rows"]) == ("out-of-range", "age", 1)


def test_rows_are_read_for_a_draft_only_if_a_person_declares_them_public(folder, command):
    (folder / "wave.csv").write_text("sex,age\n" + "1,17\n2,82\n" * 30)

    for words in (("--public-data",), ("--public-data", "--by", "Ana"), WHO):
        assert command(*DRAFT, "wave.csv", *words).code == 2
    own = command(*DRAFT, "wave.csv", "--public-data", *WHO)
    other = command(*DRAFT, "f.csv", "--codebook", "wave.csv", "--public-data", *WHO)

    assert "age: {type: integer, min: 10, max: 90}" in own.out
    assert "age: {type: integer, min: 10, max: 90}" in other.out
    assert "as public data" in own.out
    assert "300" not in other.out
    assert not (folder / "home").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("schema", "check", "s.yaml"), "FILE"),
        (("schema", "check", "nix.yaml", "f.csv"), "no such file"),
        (("schema", "check", "s.yaml", "nix*.csv"), "relative to this folder"),
        (("schema", "check", "s.yaml", "F.csv"), "Did you mean 'f.csv'?"),
        (("schema", "check", "s.yaml", "s3://bucket/f.csv"), "files of this machine"),
        (("schema", "check", "s.yaml", "b.xlsx"), "read_excel"),
        ((*DRAFT,), "Give a data file, a codebook or both"),
        ((*DRAFT, "f.csv", "--codebook", "nix.json"), "no such file"),
        ((*DRAFT, "f.csv", "--codebook", "s.yaml"), "not a codebook"),
        ((*DRAFT, "f.csv", "--codebook", "p.parquet"), "--public-data"),
        ((*DRAFT, "f.csv", "--database", "X", "--codebook", "c.csv"), "leave out"),
        ((*DRAFT, "d.json", "--public-data", *WHO), "is a codebook"),
    ],
)
def test_what_a_tired_person_types_is_answered_with_exit_code_2(words, said, folder, command):
    (folder / "s.yaml").write_text(
        "version: 1\ntitle: t\nignore: [sex, new]\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 99}\n"
    )
    for name in ("b.xlsx", "p.parquet", "d.json"):
        (folder / name).write_text("PAR1")

    found = command(*words)

    assert found.code == 2
    assert said in found.err
