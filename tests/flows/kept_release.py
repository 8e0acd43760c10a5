"""A release that is made once for a file of tests, and put back for each of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.conftest import Project, make_project
from tests.plain_judge import PlainJudge, users


class KeptRelease:
    """A project with a release, and a copy of all its folders."""

    def __init__(
        self,
        place: Path,
        text: str = "",
        make: Callable[[Project], object] = Project.release,
        **usual: str,
    ) -> None:
        """Make the release.

        Args:
            place: Folder for all of it.
            text: What the spec says beyond the usual; nothing by default.
            make: Makes the release, as far as it is to go; by default to its end.
            usual: As for `make_project`.
        """
        self._place, self._copy = place / "used", place / "kept"
        with pytest.MonkeyPatch.context() as patch:
            for module in users():
                patch.setattr(module, "SuiteJudge", PlainJudge)
            self._enter(patch)
            self.project = make_project(self._place / "work", self._place / "home", **usual)
            self.project.write_spec(text)
            make(self.project)
        shutil.copytree(self._place, self._copy, symlinks=True)

    def _enter(self, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("DP_RELEASE_HOME", str(self._place / "home"))
        patch.setenv("DP_RELEASE_STATE", str(self._place / "state"))
        patch.setenv("DP_RELEASE_MACHINE", "of the tests")
        patch.delenv("DP_RELEASE_LEDGER", raising=False)

    @contextmanager
    def lent(self, patch: pytest.MonkeyPatch) -> Iterator[Project]:
        """Lend the project to a test, in whose environment its home is; then put it back."""
        self._enter(patch)
        try:
            yield self.project
        finally:
            for path in sorted(self._place.rglob("*"), reverse=True):
                if path.is_dir() and not path.is_symlink():
                    if not any(path.iterdir()):
                        path.rmdir()
                elif path.name != "ledger.db":  # the same file, because a copy of it is refused
                    path.unlink()
            shutil.copytree(self._copy, self._place, symlinks=True, dirs_exist_ok=True)
