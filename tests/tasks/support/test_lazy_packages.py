"""A package that is spared begins empty and lacks nothing; Great Expectations is loaded so."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tasks.support.lazy_packages import LazyPackages, import_origins

ROOT = Path(__file__).parents[3]
FILES = {
    "__init__.py": "from .first import ONE, TWO as second\nfrom . import first\n"
    "from .late import *\nfrom .inner import leaf\n"
    "LOADED.append('whole') if 'LOADED' in globals() else None\nHERE = 3\n",
    "first.py": "ONE, TWO = 1, 2\n",
    "other.py": "OTHER = 4\n",
    "late.py": "LATE = 5\n",
    "inner/__init__.py": "",
    "inner/leaf.py": "LEAF = 6\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns a function that makes a package and spares it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, given=None):
        (tmp_path / name / "inner").mkdir(parents=True)
        for file, text in FILES.items():
            (tmp_path / name / file).write_text(text)
        spared = LazyPackages(
            [name] if given is None else [], {} if given is None else {name: given}
        )
        spared.install()
        made.append((spared, name))
        return name

    made = []
    yield make
    for spared, name in made:
        sys.meta_path.remove(spared)
        for loaded in [each for each in sys.modules if each.split(".")[0] == name]:
            del sys.modules[loaded]


def test_a_name_loads_the_module_it_comes_from_and_no_other(package):
    module = __import__(package("spared_a"))
    assert "spared_a.first" not in sys.modules
    assert module.second == 2
    assert "spared_a.first" in sys.modules
    assert {"spared_a.late", "spared_a.other"} & sys.modules.keys() == set()
    assert not hasattr(module, "__wrapped__")
    assert "HERE" not in vars(module)


@pytest.mark.parametrize("wanted", ["HERE", "LATE", "first"])
def test_what_is_not_found_by_name_runs_all_of_it(package, wanted):
    module = __import__(package(f"spared_{wanted.lower()}_c"))
    assert getattr(module, wanted) is not None
    assert module.HERE == 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_a_package_that_registers_runs_once_when_it_is_used(package):
    loaded: list[str] = []
    module = __import__(package("spared_d", {"VERSION": "1", "LOADED": loaded}))
    assert module.VERSION == "1"
    assert loaded == []
    assert (module.ONE, module.second, loaded) == (1, 2, ["whole"])


def test_a_thread_waits_for_another_that_runs_all_of_it(package, tmp_path):
    name = package("spared_j")
    text = "import time\nbegun.set()\ntime.sleep(0.2)\nHERE = 3\n"
    (tmp_path / name / "__init__.py").write_text(text)
    module = __import__(name)
    module.begun = begun = threading.Event()
    thread = threading.Thread(target=getattr, args=(module, "HERE"))
    thread.start()
    begun.wait()
    try:
        assert module.HERE == 3
    finally:
        thread.join()


def test_a_package_that_is_there_already_is_left_alone(package):
    name = package("spared_e")
    __import__(name)
    again = LazyPackages([name], {})
    again.install()
    assert again not in sys.meta_path


def test_where_names_are_gathered_from():
    text = (
        "import os\nfrom .a.b import X as Y\nfrom ..c import Z\nfrom . import own\nfrom d import E"
    )
    assert import_origins(text, "top.inner") == {
        "Y": ("top.inner.a.b", "X"),
        "Z": ("top.c", "Z"),
        "E": ("d", "E"),
    }
    assert import_origins("from .a import *", "top") == {}


LOADED = """
import json, sys
from dp_core.schema.expectations.suite import Rule
from tasks.validation.suite_judge import SuiteJudge
def rule(type, **kwargs):
    return Rule("value", "a", None, "profile", type, kwargs)
rules = [
    rule("expect_column_values_to_be_in_set", column="a", value_set=["x"]),
    rule("expect_column_values_to_be_between", column="b", max_value=200),
]
failed = SuiteJudge("t", rules).judge("profile", {"a": ["x", "y"], "b": [1, 200]}, 2)
print(json.dumps({"failed": sorted(failed), "loaded": sorted(sys.modules)}))
"""


def test_great_expectations_judges_without_most_of_itself():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["failed"] == [0]
    assert not done.stderr  # no progress bars
    unused = {
        "altair",
        "scipy.stats",
        "great_expectations.datasource.fluent.sql_datasource",
        "great_expectations.expectations.core.expect_column_values_to_match_regex",
        "great_expectations.render.renderer.page_renderer",
    }
    assert unused & set(found["loaded"]) == set()
    assert sum(name.startswith("great_expectations") for name in found["loaded"]) < 320


PREPARED = """
import json, sys
from pathlib import Path
from flows.engine.settings import prepare
prepare(Path(sys.argv[1]))
prepare(Path(sys.argv[1]))
import numba.np.arraymath
from fastapi.encoders import jsonable_encoder
has_blas = numba.np.arraymath._HAVE_BLAS
written = jsonable_encoder({"spec": "a.yaml", "dask": None})
from dask.threaded import get
rare = ("scipy.linalg._basic", "fastapi.applications", "dask.delayed", "jinja2", "distributed")
early = [name for name in rare if name in sys.modules]
import fastapi
from scipy import linalg
solved = linalg.solve([[2.0]], [4.0]).tolist()
app = type(fastapi.FastAPI()).__name__, fastapi.__version__ != ""
finders = sum(type(finder).__name__ == "LazyPackages" for finder in sys.meta_path)
import dask.delayed  # hides the function of this name, as long as the package is not whole
from tasks.support.lazy_packages import complete
complete("dask")
lengths = get({"a": (len, "abc")}, "a"), dask.delayed(len)([0] * 5).compute(scheduler="sync")
print(json.dumps([has_blas, written, early, solved, app, finders, lengths]))
"""


def test_what_a_release_needs_little_of_is_all_there(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PREPARED, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    written = {"spec": "a.yaml", "dask": None}
    assert json.loads(done.stdout) == [True, written, [], [2.0], ["FastAPI", True], 3, [3, 5]]
