"""`run` and `resume` for notebooks and scripts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from dp_core import errors
from dp_core.analysis.notebook.open_bundle import OpenBundle, read_bundle
from dp_core.errors import ReleaseError, StageFailed
from dp_core.text.pages.page import Page, Sentence
from dp_core.text.pages.printed import Printed
from dp_core.text.pages.python_words import in_python
from flows.processes.child_process import stop
from tasks.support.process_environment import environment

CHILD = "flows.notebook.child"
INTERRUPTED = "The release was interrupted; nothing is lost. Call `run` again, or `resume(NAME)`."


class MadeRelease(Printed):
    """A published release: what it cost, and its bundle.

    Attributes:
        release: Name of the release.
        account: Account that paid.
        out: Folder of the bundle.
        seconds: Seconds that this call took.
        bundle: The opened bundle.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """Take the answer of `dp-release run --json`."""
        self._answer = dict(answer)
        self.release: str = answer["release"]
        self.account: str = answer["account"]
        self.out = Path(answer["out"])
        self.seconds: float = answer["seconds"]

    @cached_property
    def bundle(self) -> OpenBundle:
        """The bundle, opened and verified when it is first used."""
        return read_bundle(self.out)

    def to_json(self) -> dict[str, Any]:
        """Return the answer of `dp-release run --json`."""
        return dict(self._answer)

    def page(self) -> Page:
        """Return what was released, what it cost, and where it is."""
        from flows.answers.amounts import AccountAbove, PrivacyAmount
        from flows.answers.release_answers import published_page

        amounts = {name: PrivacyAmount.of(self._answer[name]) for name in ("spent", "left")}
        above = self._answer["above"]
        if above is not None:
            left = PrivacyAmount.of(above)
            above = AccountAbove(above["account"], above["composition"], left)
        page = published_page({**self._answer, **amounts, "above": above})
        return (*page, Sentence("`.bundle` opens the bundle."))


def run(
    spec: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    dask: str | None = None,
    keep_confidential: bool = False,
    quiet: bool = False,
) -> MadeRelease:
    """Make a release and write its bundle to a new folder, as `dp-release run` does.

    The release runs in its own process, with the ledger, the resumption and the stages of the
    command, so this process never holds a row or an exact count. Interrupting the call stops the
    release without losing anything: call `run` again, or `resume`.

    Args:
        spec: Path of the release spec.
        out: New or empty folder of the bundle.
        dask: Address of a running Dask scheduler. Defaults to the one in the spec.
        keep_confidential: Keep the confidential folder (codes, and rows copied from a database or
            panel) afterwards; False by default.
        quiet: Print no progress; False by default.

    Returns:
        What was released and what it cost; `.bundle` is the opened bundle.

    Raises:
        BadInput: if spec, schema or data are wrong. Nothing names a value of the file: details are
            in the release's internal folder.
        BudgetRefused: if the ledger refuses.
        StageFailed: if a stage failed; the release can be resumed.
        LedgerCorrupt: if the ledger does not verify.
        Held: if the finished release waits for a person.
        Unpublished: if the release ended by its own thresholds.
        KeyboardInterrupt: if it was interrupted.
        TypeError: if `spec` or `out` is not a path.
    """
    options = {"dask": dask, "keep_confidential": keep_confidential}
    job = {"spec": _path("spec", spec), "out": _path("out", out), "options": options}
    return _run_job(job, quiet=quiet)


def _path(name: str, given: Any) -> str:
    """Return a path as text.

    Raises:
        TypeError: if it is not a path.
    """
    if not isinstance(given, str | os.PathLike):
        what = {"spec": "file of the release spec", "out": "new folder of the bundle"}[name]
        raise TypeError(f"`{name}` must be the path of a {what}, not {type(given).__name__}.")
    return str(os.fspath(given))


def resume(
    release: str,
    *,
    stage: str | None = None,
    dask: str | None = None,
    keep_confidential: bool = False,
    quiet: bool = False,
) -> MadeRelease:
    """Continue a release from the stage that failed, as `dp-release resume` does.

    Nothing is paid twice.

    Args:
        release: Name of the release.
        stage: Finished stage to repeat, with all stages after it. Defaults to None (continue at the
            failed stage).
        dask: Address of a running Dask scheduler. Defaults to the one in the spec.
        keep_confidential: Keep the confidential folder (codes, and rows copied from a database or
            panel) afterwards; False by default.
        quiet: Print no progress; False by default.

    Returns:
        What was released and what it cost; `.bundle` is the opened bundle.

    Raises:
        ReleaseError: as `run`.
        KeyboardInterrupt: if it was interrupted.
    """
    if not isinstance(release, str):
        raise TypeError(
            f"`release` must be the name of a release, not {type(release).__name__}; `run` takes"
            " the path of a spec."
        )
    options = {"dask": dask, "keep_confidential": keep_confidential}
    return _run_job({"release": release, "stage": stage, "options": options}, quiet=quiet)


def _run_job(job: Mapping[str, Any], *, quiet: bool) -> MadeRelease:
    """Let a process do a job; raise its error here.

    Raises:
        ReleaseError: what stopped the release.
        KeyboardInterrupt: if it was interrupted.
    """
    line = f"{json.dumps(job)}\n".encode()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,  # an interruption reaches it once, through this process
    ) as child:
        assert child.stdin is not None
        told = threading.Thread(target=_tell, args=(child.stderr, quiet), daemon=True)
        answered: list[bytes] = []
        heard = threading.Thread(target=lambda: answered.extend(child.stdout or ()), daemon=True)
        try:
            told.start()
            heard.start()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(line)
                child.stdin.flush()
            child.wait()
        except KeyboardInterrupt:
            stop(child)
            raise KeyboardInterrupt(INTERRUPTED) from None
        except BaseException:
            stop(child)
            raise
        finally:
            # A server of the release may keep the pipes open a little longer.
            heard.join(5)
            told.join(1)
    return _result(answered, child.returncode)


def _result(lines: list[bytes], code: int) -> MadeRelease:
    result: dict[str, Any] = {}
    with contextlib.suppress(ValueError, IndexError):
        result = json.loads(lines[-1])
    if "answer" in result:
        return MadeRelease(result["answer"])
    if "error" in result:
        kind = getattr(errors, result["class"], ReleaseError)
        raise kind(in_python(result["error"]), row=result["row"])
    if "interrupted" in result or code == -signal.SIGINT:
        raise KeyboardInterrupt(in_python(result.get("interrupted", "")) or INTERRUPTED)
    how = f"ended with exit code {code}; see its output above"
    if code < 0:
        little = "; the machine may have too little memory" if code == -signal.SIGKILL else ""
        how = f"was ended by signal {-code}{little}"
    raise StageFailed(
        f"The process of the release {how}. Nothing is lost: call `run` again, or `resume(NAME)`.",
        row="interrupted",
    )


def _tell(lines: Iterable[bytes] | None, quiet: bool) -> None:
    for line in lines or ():
        if not quiet:
            sys.stdout.write(line.decode("utf-8", "replace"))
            sys.stdout.flush()
