"""Regressions on the sets beside those on the confidential file: in the internal folder only."""

import json
import stat

import numpy as np
import pytest

from dp_core.bundle.verification import verify
from tasks.stores.artifacts import INTERNAL_NOTICE
from tests.flows.conftest import make_project, survey

FORMULAS = """\
synthesize: {sets: 3, mode: split}
checks: {formulas: ["income ~ age + sex", "sex ~ age"]}
"""
FILES = ("inference.html", "inference.json", "inference.png")


@pytest.mark.usefixtures("quick")
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
    plan = json.loads((project.out / "release.json").read_text())
    assert "income ~ age + sex" in json.dumps(plan)


@pytest.mark.usefixtures("quick")
def test_the_file_is_fitted_as_it_is_not_as_its_bins(project):
    """Least squares on the complete rows by NumPy: the bins would give another slope."""
    project.write_spec(FORMULAS, method="independent")
    project.release()

    rows = [row for row in survey() if row[4]]
    age = np.array([int(row[1]) for row in rows])
    female = np.array([row[2] == "2" for row in rows])
    income = np.array([float(row[4]) for row in rows])
    x = np.column_stack([np.ones(len(rows)), female, age])
    slopes = np.linalg.lstsq(x, income, rcond=None)[0]
    (first, _) = json.loads((project.internal / "inference.json").read_text())["formulas"]
    shown = [one["file"]["estimate"] for one in first["coefficients"]]
    assert shown == pytest.approx(slopes.tolist(), rel=1e-9)


@pytest.mark.usefixtures("quick")
def test_a_formula_that_has_no_solution_stops_no_release(project, monkeypatch):
    def gives_up(*_):
        raise ValueError("1234.56 is an income")

    monkeypatch.setattr("dp_core.comparison.formulas.analyse", gives_up)
    project.write_spec(FORMULAS, method="independent")

    project.release()

    found = json.loads((project.internal / "inference.json").read_text())
    assert found["formulas"][0]["problem"] == "The fit stopped with ValueError."
    assert not (project.internal / "inference.png").exists()
    assert "Not compared" in (project.internal / "inference.html").read_text()


@pytest.mark.usefixtures("quick")
def test_without_formulas_nothing_is_written(project):
    project.write_spec(method="independent")

    project.release()

    assert not [path for path in project.internal.iterdir() if path.name.startswith("inference")]


# -- asked for after the publication


@pytest.fixture
def published(project):
    project.write_spec("synthesize: {sets: 3, mode: split}\n", method="independent")
    project.release()
    return project


AGAINST = "--against-confidential"


def ask(command, project, *words):
    return command("infer", project.out, *(words or ("income ~ age + sex",)), AGAINST)


@pytest.mark.usefixtures("quick")
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
    assert again.json["internal"][0].endswith("inference-asked-2.json")
    assert {
        path: path.read_bytes() for path in published.out.rglob("*") if path.is_file()
    } == before
    assert published.kinds() == charges


@pytest.mark.usefixtures("quick")
def test_another_file_in_its_place_is_refused(command, published):
    data = published.folder / "town.csv"
    data.write_text(data.read_text().replace("i0,", "i00,", 1))

    answer = ask(command, published)

    assert answer.code == 2
    assert "not those that it was made of" in answer.err
    assert not list(published.internal.glob("inference-asked*"))


@pytest.mark.usefixtures("quick")
def test_a_bundle_of_another_home_is_refused(command, published, tmp_path, monkeypatch):
    other = make_project(tmp_path / "elsewhere", tmp_path / "other-home")
    monkeypatch.setenv("DP_RELEASE_HOME", str(other.home))

    answer = ask(command, published)

    assert answer.code == 2
    assert "was not made with the ledger of this home" in answer.err


@pytest.mark.usefixtures("quick")
def test_what_the_comparison_does_not_take_is_said(command, published):
    answer = ask(command, published, "income ~ age", "--level", "0.9")

    assert answer.code == 2
    assert "leave out --family" in answer.err
    assert ask(command, published, "income ~ center(age)").code == 2
