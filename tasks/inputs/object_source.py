"""Files in an object store as the data of a release. Confidential side.

The objects are copied once, byte by byte, to the run's confidential folder. They are written to a
temporary folder, which is renamed when all copies are complete and on disk. From then on the
release reads the copies only, so it does not depend on later changes of the objects. The input is
identified by its bytes, like local files: the same files are the same input wherever they are
stored. The store's own package takes the credentials from its environment; no spec, plan, log or
message holds them.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from dp_core.confidential.data_files import kind_of
from dp_core.confidential.source import Source, open_source
from dp_core.errors import BadInput, ReleaseError, StageFailed
from dp_core.kernel.canonical import canonical_json
from dp_core.plan.data_location import STORES, read_object_url, store_of
from tasks.support.run_folder import disk_errors, sync_folder

FORMAT = 1
NAME = "objects"
MANIFEST = "objects.json"
BLOCK_BYTES = 1 << 22
PARQUET = b"PAR1"

Answer = TypeVar("Answer")


def object_source(
    url: str, columns: Sequence[str], ignore: Collection[str], folder: Path
) -> Source:
    """Return the copies of some objects; copy them if that was not done yet.

    Args:
        url: URL from `dp_core.plan.data_location.read_object_url`; may contain `*` and `**`.
        columns: Columns to read; every file must have all of them.
        ignore: Other columns that the files may have; they are not read.
        folder: Confidential folder of the run.

    Raises:
        BadInput: if `open_source` raises it, no object matches, an object may not be read or
            changed while it was copied, or the store's package is not installed.
        StageFailed: if the store does not answer, or the disk is full.
    """
    copies = _complete_copies(url, folder)
    if copies is None:
        with disk_errors("The copy of the data"):
            _take(url, folder)
        copies = folder / NAME
    # Each file has its own folder, numbered in order, because two files may have the same name.
    return open_source("*/*", Path(glob.escape(str(copies))), columns, ignore)


def find_objects(url: str, folder: Path) -> None:
    """Find the objects of a URL in their store, unless they were copied; none is opened.

    Args:
        url: URL from `dp_core.plan.data_location.read_object_url`.
        folder: Confidential folder of the run.

    Raises:
        BadInput: if no object matches, or the store's package is not installed.
        StageFailed: if the store does not answer.
    """
    if _complete_copies(url, folder) is None:
        _matching(url)


@contextmanager
def beginning_of(url: str, folder: Path) -> Iterator[Path]:
    """Copy the part of the first object that tells its columns; delete it when the block ends.

    A Parquet file names its columns at its end, so it is copied as a whole.

    Args:
        url: URL as a person wrote it.
        folder: Confidential folder for this copy only; existing content is deleted.

    Yields:
        The path of the copy.

    Raises:
        BadInput: if the URL is invalid, no object matches, an object may not be read, or the
            store's package is not installed.
        StageFailed: if the store does not answer, or the disk is full.
    """
    try:
        url = read_object_url(url)
    except ValueError as error:
        raise BadInput(f"What is named {error}") from None
    store, (name, *_) = _matching(url)
    with disk_errors("The copy of the data"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        target = folder / PurePosixPath(name).name
    try:
        with _ask(url, lambda: store.open(name, "rb")) as source, _new(target) as sink:
            whole = False
            while block := _ask(url, lambda: source.read(BLOCK_BYTES)):
                sink.write(block)
                whole = whole or block.startswith(PARQUET)
                if not whole:
                    break
        yield target
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _complete_copies(url: str, folder: Path) -> Path | None:
    """Return the folder of the complete copies; None if there is none."""
    home = folder / NAME
    try:
        told = json.loads((home / MANIFEST).read_bytes())
        whole = [(home / one["name"]).stat().st_size == one["size"] for one in told["files"]]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return home if told["format"] == FORMAT and told["of"] == url and all(whole) else None


def _take(url: str, folder: Path) -> None:
    for left in [folder / NAME, *folder.glob(f"{NAME}-*.tmp")]:
        shutil.rmtree(left, ignore_errors=True)
    store, names = _matching(url)
    for name in names:
        kind_of(Path(name))
    temporary = Path(tempfile.mkdtemp(prefix=f"{NAME}-", suffix=".tmp", dir=folder))
    try:
        told = []
        for number, name in enumerate(names):
            target = temporary / f"{number:06d}" / PurePosixPath(name).name
            target.parent.mkdir(mode=0o700)
            size = _copy(url, store, name, target)
            told.append({"name": str(target.relative_to(temporary)), "size": size})
        with _new(temporary / MANIFEST) as file:
            file.write(canonical_json({"format": FORMAT, "of": url, "files": told}))
        sync_folder(temporary)
        temporary.rename(folder / NAME)
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _matching(url: str) -> tuple[Any, list[str]]:
    """Return the store and the sorted names of the matching objects, at least one."""
    store, names = _ask(url, lambda: _list_objects(url))
    if not names:
        raise BadInput(f"No object matches {url!r}.", row="data-not-found")
    return store, names


def _list_objects(url: str) -> tuple[Any, list[str]]:
    import fsspec.core

    store, path = fsspec.core.url_to_fs(url)
    # `isfile` and `exists` are not used: they return False if the store does not answer.
    found = store.glob(path, detail=True) if "*" in path else {path: store.info(path)}
    return store, sorted(name for name, told in found.items() if told["type"] == "file")


def _copy(url: str, store: Any, name: str, target: Path) -> int:
    """Copy an object to a new file; return its size in bytes."""
    size = 0
    before = _ask(url, lambda: store.ukey(name))
    with _ask(url, lambda: store.open(name, "rb")) as source, _new(target) as sink:
        while block := _ask(url, lambda: source.read(BLOCK_BYTES)):
            size += sink.write(block)
    _ask(url, store.invalidate_cache)
    if _ask(url, lambda: (store.ukey(name), store.size(name))) != (before, size):
        raise BadInput(
            f"The object {target.name!r} changed while it was copied; start again when no program"
            " writes to it.",
            row="data-being-written",
        )
    sync_folder(target.parent)
    return size


@contextmanager
def _new(path: Path) -> Iterator[Any]:
    """Create a file of mode 0600 for the block, and sync it to disk at the block's end."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _ask(url: str, question: Callable[[], Answer]) -> Answer:
    """Call a function that asks the store; replace the store's errors by the program's own.

    Raises:
        BadInput: if no object matches, it may not be read, or the store's package is missing.
        StageFailed: for any other error.

    Privacy:
        A store's error may hold a signed URL or a key, so only its type is shown.
    """
    try:
        return question()
    except Exception as error:
        failure = _store_error(url, error)
    # Raise outside the `except` block, so that the store's error is not kept as context.
    raise failure


def _store_error(url: str, error: Exception) -> ReleaseError:
    store, kind = store_of(url), type(error).__name__
    assert store is not None
    if isinstance(error, ImportError):
        package = STORES[store]
        return BadInput(
            f"Reading {store}:// needs the package {package!r}; install it where the release runs."
        )
    if isinstance(error, FileNotFoundError):
        return BadInput(f"No object matches {url!r}.", row="data-not-found")
    if isinstance(error, PermissionError):
        return BadInput(
            f"The store does not let this user read {url!r}; check the credentials in the"
            " environment of the release.",
            row="data-damaged",
        )
    return StageFailed(
        f"The object store {store}:// did not answer ({kind}); check its address and the"
        " credentials in the environment of the release, then resume or try again.",
        row="database-silent",
    )
