"""What a client cannot learn or do that the ledger did not pay for."""

import shutil
from fractions import Fraction

import pytest

from dp_core.errors import StageFailed
from dp_core.kernel.cost.composition import Terms
from tasks.confidential import connection
from tests.confidential_side import InThisProcess, confidential_run, raises_inside
from tests.flows.conftest import as_csv, plainly, survey

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("rows", [40, 400, 1777])
def test_progress_tells_every_tenth_whatever_the_file(project, monkeypatch, rows):
    (project.folder / "town.csv").write_text(as_csv(survey(rows)))
    told = []

    class Listening(InThisProcess):
        def _tell(self, notice):
            if notice["type"] == "progress":
                told.append((notice["stage"], notice["tenth"]))
            super()._tell(notice)

    monkeypatch.setattr(connection, "connect", lambda *_: Listening())
    project.release()
    stages = {stage for stage, _ in told}
    assert {"validate", "count"} & stages
    for stage in stages:
        tenths = [tenth for of, tenth in told if of == stage]
        assert tenths == [*range(1, len(tenths) + 1)]


def test_codes_of_another_input_are_not_counted(project, tmp_path):
    """Copied from another run, or restored with a part of a backup."""
    project.open_account("village", terms=Terms("basic", Fraction(5), Fraction("1e-5")))
    kept = tmp_path / "kept"

    def keep(task, run, *given):
        if task.name == "count":
            shutil.copytree(confidential_run(run).codes, kept)
            raise StageFailed("kept")
        return plainly(task, run, *given)

    with pytest.raises(StageFailed, match="kept"):
        project.release(perform=keep)

    def exchange(task, run, *given):
        if task.name == "ledger: grant":
            codes = run.folder.confidential / "codes"
            shutil.rmtree(codes)
            shutil.copytree(kept, codes)
        return plainly(task, run, *given)

    (project.folder / "village.csv").write_text(as_csv(survey(700)))
    project.write_spec(release="other", data="village.csv", account="village")
    with raises_inside(StageFailed, match="not made of this release's input"):
        project.release(perform=exchange)
    assert "charge" not in project.kinds()
