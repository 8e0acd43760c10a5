"""The corpus: each release is made once a session, lent to a test, and put back for the next."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dp_core.errors import Held
from tests.flows.conftest import Project, make_project, plainly
from tests.plain_judge import PlainJudge, users

MACHINE = "of the tests"
"""A ledger of another machine is refused."""


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
        patch.setenv("DP_RELEASE_MACHINE", MACHINE)
        patch.delenv("DP_RELEASE_LEDGER", raising=False)

    def read(self, patch: pytest.MonkeyPatch) -> Project:
        """Return the project for a test that changes nothing of it."""
        patch.setenv("DP_RELEASE_MACHINE", MACHINE)
        return self.project

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


class Corpus:
    """The releases of a session, each made once in each process: a test may change its own."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        """Make releases in new folders of `folders`."""
        self._folders = folders
        self._made: dict[object, KeptRelease] = {}

    def __call__(
        self, text: str = "", make: Callable[[Project], object] = Project.release, **usual: str
    ) -> KeptRelease:
        """Return the release that is made so, as for `KeptRelease`."""
        key = (text, make, *sorted(usual.items()))
        if key not in self._made:
            self._made[key] = KeptRelease(self._folders.mktemp("corpus"), text, make, **usual)
        return self._made[key]


class Later:
    """Another release of a project: its spec, its folders, and how to make it."""

    def __init__(self, project: Project, name: str, **lines: str) -> None:
        """Name the release; `lines` are those of its spec beside version, schema and account."""
        self.project, self.name, self._lines = project, name, lines
        self.spec, self.out = project.folder / f"{name}.yaml", project.folder / name
        self.run_folder = project.home / "runs" / name

    def write(self, text: str = "", **changes: str) -> None:
        """Write the spec; `text` is added to it, and a change replaces a line's value."""
        usual = {"schema": "town.schema.yaml", "account": "town", **self._lines}
        lines = {"version": "1", "release": self.name, **usual, **changes}
        self.spec.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()) + text)

    def make(self, perform: Callable[..., Any] = plainly) -> Any:
        """Make the release, or go on with it, without Prefect's engine; return the run."""
        from flows.release import carry_out

        return carry_out(self.spec, self.out, perform=perform)

    def statement(self) -> Any:
        """Return the statement of the bundle."""
        return json.loads((self.out / "release.json").read_bytes())


def hold(project: Project) -> None:
    """Make a release up to where it awaits approval."""
    with pytest.raises(Held):
        project.release()


def lent(text: str = "", make: Any = Project.release, **usual: str) -> Any:
    """Return a fixture: a release of the corpus, lent to a test and then put back."""

    @pytest.fixture
    def project(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
        with corpus(text, make, **usual).lent(monkeypatch) as found:
            yield found

    return project


def only_read(text: str = "", make: Any = Project.release, **usual: str) -> Any:
    """Return a fixture: a release of the corpus that no test changes."""

    @pytest.fixture
    def project(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Project:
        return corpus(text, make, **usual).read(monkeypatch)

    return project
