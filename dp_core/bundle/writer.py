"""Writes the published folder: all of it, or nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from dp_core.bundle.files.codebook import CODEBOOK, MARGINALS, codebook, synthetic_path
from dp_core.bundle.files.marginals_file import write_marginals
from dp_core.bundle.files.parquet_file import settle, write_failure
from dp_core.bundle.published import REPORT, Published
from dp_core.bundle.report.page import report
from dp_core.bundle.statement.citation import CITATION, citation_text
from dp_core.bundle.statement.deployment_registry import REGISTRY, registry_text
from dp_core.bundle.statement.release_json import (
    STATEMENT,
    Sign,
    file_record,
    render,
    statement,
    statement_message,
)
from dp_core.documents.canonical import digest
from dp_core.errors import BadInput, StageFailed
from dp_core.metrics.marginal_error import Tally


def check_destination(folder: Path) -> None:
    """Raise BadInput unless a bundle can be put there: a new name, or an empty folder.

    Run it before anything is spent.

    Raises:
        BadInput: if it is a file, or holds files, or no folder can be made there.
    """
    folder = folder.absolute()
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise BadInput(
                f"The output folder {folder} is a file or a link; name a folder that is new.",
                row="output-unusable",
            )
        if folder.exists() and any(folder.iterdir()):
            raise BadInput(
                f"The output folder {folder} is not empty; name a new one, or empty it first.",
                row="output-not-empty",
            )
        above = folder.parent
        while not above.exists() and above != above.parent:
            above = above.parent
        if not above.is_dir() or not _takes_folders(above, folder.name):
            raise BadInput(
                f"The output folder {folder} cannot be made: {above} is not a folder in which you"
                " may write.",
                row="output-unusable",
            )
        if folder.exists() and folder.is_mount():
            raise BadInput(
                f"The output folder {folder} is a mount point, which cannot be replaced in one"
                f" step; name a folder inside it, such as {folder / 'release'}.",
                row="output-unusable",
            )
    except OSError as error:
        raise BadInput(
            f"The output folder {folder} cannot be used ({error.strerror}); name another.",
            row="output-unusable",
        ) from None


def _takes_folders(above: Path, name: str) -> bool:
    """Return whether a folder can be made in this one: permissions alone do not tell."""
    # One name for one bundle: what a killed process left is found here, and goes.
    probe = above / f".{name}.probe"
    try:
        with contextlib.suppress(FileExistsError):
            probe.mkdir()
        with contextlib.suppress(FileNotFoundError):
            probe.rmdir()
    except OSError:
        return False
    return True


def write_bundle(
    folder: Path,
    published: Published,
    *,
    synthetic: Sequence[Path],
    tallies: Sequence[Tally],
    inspect: Callable[[Path], None] = lambda _: None,
    sign: Sign = lambda _: None,
) -> Path:
    """Write a complete bundle to `folder` and return it.

    Everything goes into a hidden folder beside it, is synced, and is renamed in one step: a bundle
    that exists is whole. Files are readable by all.

    Args:
        folder: New, or empty; or holding this very bundle, which is then left as it is: an
            interruption may come between the renaming and whatever follows it.
        published: The release; the rows of each set are taken from the tallies.
        synthetic: The m synthetic sets, written by `write_synthetic`, in order; they are copied.
        tallies: One per set, of `fit.needed_counts`.
        inspect: Called with the complete hidden folder before it gets its name; what it raises
            stops the bundle from being handed over.
        sign: Signs the statement with the ledger's key.

    Raises:
        BadInput: if the folder is not new or empty.
        StageFailed: if the disk is full or a file cannot be written; nothing is left behind.
    """
    if len(synthetic) != published.sets or len(tallies) != published.sets:
        raise ValueError(
            f"{published.sets} sets, but {len(synthetic)} files and {len(tallies)} tallies."
        )
    published = dataclasses.replace(published, rows=tuple(tally.rows for tally in tallies))
    folder = folder.absolute()
    if not (folder / STATEMENT).is_file():
        check_destination(folder)
    partial = folder.parent / f".{folder.name}.partial"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # What an interrupted attempt left; the name is ours.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o755)
        _fill(partial, published, synthetic, tallies, sign)
        for path in [*_folders(partial), partial]:
            path.chmod(0o755)
            settle(path)
        inspect(partial)
        if (folder / STATEMENT).is_file() and _same(partial, folder):
            shutil.rmtree(partial)
        else:
            check_destination(folder)
            os.rename(partial, folder)
        settle(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise write_failure(folder, error) from None
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return folder


def _fill(
    folder: Path,
    published: Published,
    synthetic: Sequence[Path],
    tallies: Sequence[Tally],
    sign: Sign,
) -> None:
    files: dict[str, dict[str, object]] = {}
    (folder / "synthetic").mkdir()
    for number, source in enumerate(synthetic, start=1):
        name = synthetic_path(number)
        if not source.is_file():
            raise StageFailed(
                f"Synthetic set {number} is missing from the run's folder; resume the release to"
                " draw it again at no cost.",
                row="set-gone",
            )
        shutil.copyfile(source, folder / name)
        settle(folder / name)
        files[name] = file_record(folder / name)
    write_marginals(folder / MARGINALS, published.released, published.schema)
    files[MARGINALS] = file_record(folder / MARGINALS)
    described = json.dumps(codebook(published, files), ensure_ascii=False, indent=2)
    texts = {
        CODEBOOK: (described + "\n").encode("utf-8"),
        REPORT: report(published, tallies).encode("utf-8"),
    }
    stated = statement(published, {})
    texts |= {CITATION: citation_text(stated), REGISTRY: registry_text(stated)}
    for name, text in texts.items():
        _write(folder / name, text)
        files[name] = file_record(folder / name)
    _write(folder / STATEMENT, render(statement(published, files, sign)))


def _same(first: Path, second: Path) -> bool:
    """Whether two folders hold the same files, byte by byte; only the signature may be another's.

    The ledger's key may have been replaced between an interruption and the resumption.
    """

    def content(folder: Path) -> dict[str, object]:
        return {
            path.relative_to(folder).as_posix(): file_record(path)
            for path in folder.rglob("*")
            if not path.is_dir() and path != folder / STATEMENT
        } | {STATEMENT: _stated(folder / STATEMENT)}

    return content(first) == content(second)


def _stated(path: Path) -> bytes:
    """Return a statement without its signature; one that is not whole as it is."""
    content = path.read_bytes()
    try:
        document = json.loads(content)
        own = document.pop("sha256")
        return statement_message(document) if own == digest(document) else content
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return content


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    settle(path)


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()]
