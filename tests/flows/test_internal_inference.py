"""Regressions on the sets beside those on the confidential file: in the internal folder only."""

import json
import os
import stat
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from dp_core.bundle.verification.verify import verify
from tasks.support.run_folder import INTERNAL_NOTICE
from tests.flows.conftest import as_csv, make_project, survey
from tests.flows.corpus import lent
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")

FORMULAS = """\
synthesize: {sets: 3, mode: split}
checks: {formulas: ["income ~ age + sex", "sex ~ age"]}
"""
FILES = ("inference.html", "inference.json", "inference.png")


def test_formulas_of_the_spec_are_compared_in_the_internal_folder_only(project):
    project.write_spec(FORMULAS, privacy="{epsilon: 2, delta: 1e-6}", method="independent")

    project.release()

    assert {path.name for path in project.internal.iterdir()} >= set(FILES)
    assert stat.S_IMODE(project.internal.stat().st_mode) == 0o700
    for name in FILES:
        path = project.internal / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert INTERNAL_NOTICE.encode() in path.read_bytes()
    assert INTERNAL_NOTICE in (project.internal / "inference.html").read_text().splitlines()[0]
    found = json.loads((project.internal / "inference.json").read_text())
    assert next(iter(found)) == "confidential"
    first, second = found["formulas"]
    assert [one["name"] for one in first["coefficients"]] == ["Intercept", "sex[T.female]", "age"]
    assert first["problem"] is second["problem"] is None
    assert all(one["width_ratio"] > 0 for one in first["coefficients"])
    assert "rule split" in found["rule"]
    # Nothing of it is in the bundle, but what was asked: it was fixed before anybody looked.
    estimate = f"{first['coefficients'][1]['file']['estimate']:.6f}".encode()
    public = [path for path in project.out.rglob("*") if path.is_file()]
    assert not {path.name for path in public} & set(FILES)
    assert not any(estimate in path.read_bytes() for path in public)
    assert all(check.passed for check in verify(project.out).checks)
    assert "income ~ age + sex" in json.dumps(project.statement())

    # Least squares on the complete rows by NumPy: the bins would give another slope.
    rows = [row for row in survey() if row[4]]
    age = np.array([int(row[1]) for row in rows])
    female = np.array([row[2] == "2" for row in rows])
    income = np.array([float(row[4]) for row in rows])
    x = np.column_stack([np.ones(len(rows)), female, age])
    slopes = np.linalg.lstsq(x, income, rcond=None)[0]
    shown = [one["file"]["estimate"] for one in first["coefficients"]]
    assert shown == pytest.approx(slopes.tolist(), rel=1e-9)


def stops(where, error):
    """Return a patch by which a part of the comparison raises an error."""

    return (where, raising(error))


@pytest.mark.parametrize(
    ("where", "error"),
    some(
        [
            ("dp_core.confidential.original_values.original_values", MemoryError()),
            ("dp_core.confidential.original_values.original_values", SystemExit(7)),
            # What catches this catches the others.
            ("dp_core.confidential.original_values.original_values", BaseException()),
            ("dp_core.lab.comparison.formula_comparison.compare_formulas", BaseException()),
            ("dp_core.lab.measures.inference_agreement.shares", BaseException()),
        ],
        lambda case: type(case[1]) is BaseException and "formulas" not in case[0],
    ),
)
def test_nothing_that_the_data_can_raise_stops_a_release(project, monkeypatch, where, error):
    monkeypatch.setattr(*stops(where, error))
    project.write_spec(FORMULAS, method="independent")

    project.release()

    assert (project.out / "release.json").is_file()
    assert {path.name for path in project.internal.iterdir()} >= set(FILES)
    found = json.loads((project.internal / "inference.json").read_text())
    for formula in found["formulas"]:
        assert formula["problem"] == f"The comparison stopped with {type(error).__name__}."
    assert "Not compared" in (project.internal / "inference.html").read_text()


def test_a_person_can_stop_it(project, monkeypatch):
    """No engine is in the process that compares, so none has signals there."""
    place = "dp_core.confidential.original_values.original_values"
    monkeypatch.setattr(*stops(place, KeyboardInterrupt))
    project.write_spec(FORMULAS, method="independent")

    with pytest.raises(KeyboardInterrupt):
        project.release()


def test_nothing_is_heard_or_told_of_the_comparison(project, monkeypatch, capfd):
    """Neither what Python prints and warns of, nor what a library writes past it, is passed on."""
    facts = []

    def perform(stage, run, *given):
        answer = stage.fn(run, *given)
        if stage.name == "check":
            facts.append(set(run.folder.facts_of("check")))
        return answer

    def loud(*given):
        print("35 years")  # noqa: T201
        print("male", file=sys.stderr)  # noqa: T201
        os.write(1, b" ** On entry to DLASCL parameter number 4 had an illegal value\n")
        os.write(2, b"1234.56\n")
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        np.array([1e200]) ** 2
        raise ValueError(given)

    monkeypatch.setattr("dp_core.lab.comparison.formula_comparison.analyse", loud)
    project.write_spec(FORMULAS, method="independent")
    project.release(perform=perform)

    assert capfd.readouterr() == ("", "")
    public = {
        "tables",
        "interactions",
        "mean_tvd_to_noisy",
        "mean_expected_tvd",
        "fits",
        "best",
        "rules",
        "relations",
        "checks",
        "expectations_not_met",
    }
    assert facts == [public]
    print("heard again")  # noqa: T201
    os.write(2, b"and this\n")
    assert capfd.readouterr() == ("heard again\n", "and this\n")


# -- asked for after the publication


published = lent("method: independent\nsynthesize: {sets: 3, mode: split}\n")


AGAINST = "--against-confidential"


def ask(command, project, *words):
    return command("infer", project.out, *(words or ("income ~ age + sex",)), AGAINST)


def test_staff_may_ask_for_another_formula_and_see_where_it_is(command, published):
    before = {path: path.read_bytes() for path in published.out.rglob("*") if path.is_file()}
    charges = published.kinds()

    answer = ask(command, published)
    again = ask(command, published, "sex ~ age", "--json")

    assert answer.code == 0, answer.err
    page = published.internal / "inference-asked-1.html"
    assert page.name in answer.out
    found = json.loads(page.with_suffix(".json").read_text())
    (formula,) = found["formulas"]
    assert formula["problem"] is None
    for one in formula["coefficients"]:
        assert f"{one['file']['estimate']:.4g}" not in answer.out
    assert again.json["internal"].endswith("inference-asked-2.html")
    assert Path(again.json["internal"]).is_file()
    assert {
        path: path.read_bytes() for path in published.out.rglob("*") if path.is_file()
    } == before
    assert published.kinds() == charges


def test_a_bundle_of_another_home_is_refused(command, published, tmp_path, monkeypatch):
    other = make_project(tmp_path / "elsewhere", tmp_path / "other-home")
    monkeypatch.setenv("DP_RELEASE_HOME", str(other.home))

    answer = ask(command, published)

    assert answer.code == 2
    assert "was not made with the ledger of this home" in answer.err


def test_what_is_told_does_not_depend_on_one_person(command, tmp_path, monkeypatch):
    """In one file a person is older than 70, in the other nobody; in the sets many are."""
    told = []
    for number, age in enumerate((71, 69)):
        other = make_project(tmp_path / f"file-{number}", tmp_path / f"home-{number}")
        monkeypatch.setenv("DP_RELEASE_HOME", str(other.home))
        rows = [row for row in survey() if int(row[1]) < 70]
        rows[0][1], rows[0][4] = str(age), "500.00"
        (other.folder / "town.csv").write_text(as_csv(rows))
        other.write_spec("synthesize: {sets: 3, mode: split}\n", method="independent")
        other.release()
        before = {path.name for path in other.internal.iterdir()}
        formula = "income ~ I(age > 70)"
        told.append([])
        for words in ((), ("--json",)):
            answer = command("infer", other.out, formula, AGAINST, *words)
            told[-1].append(answer.code)
            for text in (answer.out, answer.err):
                told[-1].append(
                    text.replace(str(other.internal.resolve()), "internal").replace(
                        str(other.internal), "internal"
                    )
                )
        told[-1].append(sorted({path.name for path in other.internal.iterdir()} - before))
        found = json.loads((other.internal / "inference-asked-1.json").read_text())
        (one,) = found["formulas"]
        # A file with nobody over 70 has no such coefficient.
        assert [pair["name"] for pair in one["coefficients"]] == (
            ["Intercept", "I(age > 70)[T.True]"] if age == 71 else ["Intercept"]
        )

    assert told[0] == told[1]
    assert told[0][0] == 0
    assert len(told[0][-1]) == 6
