"""A worker that could compute otherwise is refused in one sentence."""

import pytest

from dp_core.errors import StageFailed
from tasks.support import worker_program
from tasks.support.worker_program import PACKAGES, require_same, versions

WORKER = "tls://10.0.0.2:4000"


def test_a_worker_with_all_our_versions_is_taken():
    assert versions().keys() == {"python", *PACKAGES}
    require_same(versions(), versions() | {"another": "9"}, WORKER)


@pytest.mark.runbook("dask-worker-differs")
@pytest.mark.parametrize("name", ["dp-release", "numpy", "distributed", "python"])
def test_a_worker_with_another_version_is_named_with_both(says, name):
    ours = versions()
    with pytest.raises(StageFailed) as refused:
        require_same(ours, ours | {name: "9.9"}, WORKER)
    says(refused.value)
    assert (
        f"The Dask worker {WORKER} has {name} 9.9, and this process has {ours[name]};"
        in refused.value.message
    )


@pytest.mark.runbook("dask-worker-differs")
def test_a_worker_without_dp_release_is_named(says):
    with pytest.raises(StageFailed) as refused:
        require_same(versions(), versions() | {"dp-release": worker_program.NONE}, WORKER)
    says(refused.value)


@pytest.mark.parametrize("package", ["dp_core", "tasks"])
def test_sources_are_told_apart_by_every_file_of_what_computes(tmp_path, monkeypatch, package):
    for name in ("dp_core", "tasks", "flows"):
        (tmp_path / name / "inner").mkdir(parents=True)
    file = tmp_path / package / "inner" / "some.py"
    (tmp_path / "tasks" / "support").mkdir()
    own = tmp_path / "tasks" / "support" / "worker_program.py"
    monkeypatch.setattr(worker_program, "__file__", str(own))
    found = [worker_program.sources.__wrapped__()]
    for text in ("ONE = 1", "ONE = 2"):
        file.write_text(text)
        found.append(worker_program.sources.__wrapped__())
    file.rename(file.with_name("other.py"))
    found.append(worker_program.sources.__wrapped__())
    assert len(set(found)) == 4
    (tmp_path / "flows" / "page.py").write_text("")
    assert worker_program.sources.__wrapped__() == found[-1]
