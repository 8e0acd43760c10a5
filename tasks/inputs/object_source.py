"""Files of an object store as the data of a release. Confidential side.

Copied once, byte by byte, into the run's confidential folder, under another name that becomes the
right one when all are whole and on disk. From then on a release reads its copy: it can stop and go
on whatever becomes of the objects. The input is known by the bytes, as local files are: the same
files are the same input wherever they are. Credentials are what the store's own package finds in
its environment; they are in no spec, plan, log or message.
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

from dp_core.confidential.source import Source, open_source
from dp_core.confidential.source_files import kind_of
from dp_core.documents.canonical import canonical_json
from dp_core.errors import BadInput, ReleaseError, StageFailed
from dp_core.spec.data_location import STORES, read_object_url, store_of
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
    """Return the copies of some objects, copying them where they are not here yet.

    Args:
        url: From `dp_core.spec.data_location.read_object_url`; `*` and `**` as in a glob of files.
        columns: Columns to read, each of which every file must have.
        ignore: Columns that files may have besides.
        folder: Confidential folder of the run.

    Raises:
        BadInput: as of `open_source`; if no object matches or one may not be read; if an object
            changed while it was copied; or if the store's package is not installed.
        StageFailed: if the store stopped answering, or the disk is full.
    """
    copies = _copied(url, folder)
    if copies is None:
        with disk_errors("The copy of the data"):
            _take(url, folder)
        copies = folder / NAME
    # One folder for each file, in their order: files of two folders may have one name.
    return open_source("*/*", Path(glob.escape(str(copies))), columns, ignore)


@contextmanager
def beginning_of(url: str, folder: Path) -> Iterator[Path]:
    """Copy what tells the columns of an object, of several the first; it goes when the block ends.

    Of a Parquet file that is its end, and so everything is copied.

    Args:
        url: As a person wrote it.
        folder: Confidential; for such copies alone: what was left by one that was killed goes.

    Raises:
        BadInput, StageFailed: as of `object_source`; or if it is no such URL.
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


def _copied(url: str, folder: Path) -> Path | None:
    """Return the folder of a finished copy, None where there is none."""
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
    """Return the store, and the names of the objects, at least one, in the order of files."""
    store, names = _ask(url, lambda: _listed(url))
    if not names:
        raise BadInput(f"No object matches {url!r}.")
    return store, names


def _listed(url: str) -> tuple[Any, list[str]]:
    import fsspec.core

    store, path = fsspec.core.url_to_fs(url)
    # Not `isfile` or `exists`: to them a store that does not answer has no such object.
    found = store.glob(path, detail=True) if "*" in path else {path: store.info(path)}
    return store, sorted(name for name, told in found.items() if told["type"] == "file")


def _copy(url: str, store: Any, name: str, target: Path) -> int:
    """Copy an object to a new file; return its bytes."""
    size = 0
    before = _ask(url, lambda: store.ukey(name))
    with _ask(url, lambda: store.open(name, "rb")) as source, _new(target) as sink:
        while block := _ask(url, lambda: source.read(BLOCK_BYTES)):
            size += sink.write(block)
    _ask(url, store.invalidate_cache)
    if _ask(url, lambda: (store.ukey(name), store.size(name))) != (before, size):
        raise BadInput(
            f"The object {target.name!r} changed while it was copied; start again when nothing"
            " writes to it any more."
        )
    sync_folder(target.parent)
    return size


@contextmanager
def _new(path: Path) -> Iterator[Any]:
    """Write a file of mode 0600 that is on disk when the block ends."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _ask(url: str, question: Callable[[], Answer]) -> Answer:
    """Return what a store answers, or say in a sentence of ours what its package complains of.

    Privacy:
        Its own words may hold a signed URL or a key, so only the kind of error is told.
    """
    try:
        return question()
    except Exception as error:
        failure = _said(url, error)
    # Here nothing is being handled that would be kept along.
    raise failure


def _said(url: str, error: Exception) -> ReleaseError:
    store, kind = store_of(url), type(error).__name__
    assert store is not None
    if isinstance(error, ImportError):
        package = STORES[store]
        return BadInput(
            f"Reading {store}:// needs the package {package!r}; install it where the release runs."
        )
    if isinstance(error, FileNotFoundError):
        return BadInput(f"No object matches {url!r}.")
    if isinstance(error, PermissionError):
        return BadInput(
            f"The store does not let this user read {url!r}; check the credentials in the"
            " environment of the release."
        )
    return StageFailed(
        f"The object store {store}:// did not answer ({kind}); check its address and the"
        " credentials in the environment of the release, then resume or try again."
    )
