"""Looks for confidential values in every byte that a release left, however it is wrapped.

A value may lie in a file as text, in another encoding, as a packed number, or inside something
that is itself wrapped: Prefect keeps pickles in base64, SQLite cuts long texts over pages, Parquet
and Dask compress. What is looked for is small, and what is looked through is of some megabytes.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
import shutil
import sqlite3
import struct
import tempfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DEPTH = 4
"""How many wrappings are taken off: base64 of JSON of base64 of zlib of a pickle, say."""

MOST = 1 << 26
"""Bytes that one compressed piece may unpack to."""

_SMALL, _BETWEEN = 4096, b"\n\xff\xfe\xff\n"
"""Contents of fewer bytes are searched together, with bytes between them that no form holds."""
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_ZLIB = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_ALONE = r"(?<![\w.,]){}(?![\w]|[.,]\d)"
_PROCESS = re.compile(rb'"process": ?\d+')
"""The number that the system gave a process, which may be any."""


def forms(canary: str) -> Mapping[str, bytes]:
    """Return the ways in which a canary's text may be written; for a number its bits as well."""
    text = canary.encode()
    found = {
        "text": text,
        "utf-16": canary.encode("utf-16-le"),
        "utf-16, big end first": canary.encode("utf-16-be"),
        "utf-32": canary.encode("utf-32-le"),
        "hex": text.hex().encode(),
        "upper hex": text.hex().upper().encode(),
        "quoted": urllib.parse.quote(canary, safe="").encode(),
        "escaped": canary.encode("unicode_escape"),
    }
    for shift in range(3):
        # Within a longer text: the letters that do not depend on what stands around it.
        whole = base64.b64encode(bytes(shift) + text)
        inner = whole[(0, 2, 3)[shift] : len(whole) - 4]
        found[f"base64, {shift} aside"] = inner
        found[f"base64 of URLs, {shift} aside"] = inner.translate(bytes.maketrans(b"+/", b"-_"))
    with contextlib.suppress(ValueError):
        found["64-bit float"] = struct.pack("<d", float(canary))
        found["64-bit float, big end first"] = struct.pack(">d", float(canary))
        if len(whole := canary.partition(".")[0]) >= 6:  # fewer digits are anywhere
            found["whole part"] = whole.encode()
    return found


def hits(
    folder: Path,
    canaries: Sequence[str],
    skip: Callable[[Path, str], bool] = lambda _path, _canary: False,
) -> list[str]:
    """Return where below a folder a canary is, each as `path: canary (form)`.

    Args:
        folder: Searched with all its folders; file names as well as contents.
        canaries: Texts that must not be there.
        skip: Told a path relative to the folder and a canary; whether it may be there.
    """
    return search(folder, canaries, (), skip=skip).hits


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        hits: Where a canary is, each as `path: canary (form)`.
        counts: For each number the files whose text holds it as a decimal that stands by itself.
    """

    hits: list[str]
    counts: Mapping[int, list[str]]


def search(
    folder: Path,
    canaries: Sequence[str],
    numbers: Sequence[int],
    *,
    skip: Callable[[Path, str], bool],
) -> Found:
    """Search every file below a folder once, for canaries as `hits` does and for numbers.

    Args:
        folder: Searched with all its folders.
        canaries: Texts that must not be there; looked for in names as well.
        numbers: Counts that must not be there.
        skip: Told a path relative to the folder and a canary, or "" for the numbers.
    """
    wanted = {canary: forms(canary) for canary in canaries}
    found: set[str] = set()
    counted: dict[int, list[str]] = {number: [] for number in numbers}
    for path in files(folder):
        name = path.relative_to(folder)
        sought = {canary: wanted[canary] for canary in canaries if not skip(name, canary)}
        left = set() if not numbers or skip(name, "") else set(numbers)
        if not sought and not left:
            continue
        contents = [name.as_posix().encode(), *_few(layers(path))]
        texts = [_PROCESS.sub(b"", content) for content in contents[1:]] if left else []
        found.update(
            f"{name.as_posix()}: {canary} ({form})"
            for content in contents
            for canary, written in sought.items()
            for form, needle in written.items()
            if needle in content
        )
        for number in left:
            if any(holds_count(text, number) for text in texts):
                counted[number].append(name.as_posix())
    return Found(sorted(found), counted)


def _few(contents: Iterable[bytes]) -> list[bytes]:
    """Return the same contents, all small ones in one: of the cells of a table there are many."""
    small, large = [], []
    for content in contents:
        (small if len(content) < _SMALL else large).append(content)
    return [_BETWEEN.join(small), *large]


def in_text(text: str, canaries: Sequence[str]) -> list[str]:
    """Return which canaries a text holds, in whatever form."""
    return [
        canary
        for canary in canaries
        for content in peeled(text.encode())
        if any(needle in content for needle in forms(canary).values())
    ]


def holds_count(content: bytes | str, number: int) -> bool:
    """Return whether a text holds a number, with or without signs between its thousands."""
    thousands = f"{number:,}"
    written = [str(number), f"{number}.0", thousands, *map(thousands.replace, ",,", "_ ")]
    text = content.encode() if isinstance(content, str) else content
    return any(
        form.encode() in text
        and re.search(_ALONE.format(re.escape(form)), text.decode("latin-1")) is not None
        for form in written
    )


def files(folder: Path) -> list[Path]:
    """Return every file below a folder; links are not followed."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def layers(path: Path) -> Iterator[bytes]:
    """Yield a file's bytes, its rows where it is a table, and what is wrapped in either."""
    content = path.read_bytes()
    yield from peeled(content)
    if content.startswith(b"SQLite format 3"):
        for cell in dict.fromkeys(_cells(path)):
            yield from peeled(cell)
    elif content.startswith(b"PAR1"):
        yield _parquet(path)


def peeled(content: bytes, depth: int = DEPTH) -> Iterator[bytes]:
    """Yield bytes, and what is packed or encoded within them."""
    yield content
    if not depth:
        return
    for inner in _unpacked(content):
        yield from peeled(inner, depth - 1)
    for token in dict.fromkeys(_BASE64.findall(content)):
        # Of a token of some other kind, as a hash, come bytes that hold nothing.
        letters = token.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        letters = letters[: len(letters) - (len(letters) % 4 == 1)]
        yield from peeled(base64.b64decode(letters + b"=" * (-len(letters) % 4)), depth - 1)


def _unpacked(content: bytes) -> Iterator[bytes]:
    for start in _ZLIB.finditer(content):
        with contextlib.suppress(zlib.error):
            inner = zlib.decompressobj(wbits=47).decompress(content[start.start() :], MOST)
            if inner:
                yield inner
    if content.startswith(b"PK\x03\x04"):
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as pack:
            yield from map(pack.read, pack.namelist())


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a copy of an SQLite database and of its journal; looking changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            yield connection


def _cells(path: Path) -> Iterator[bytes]:
    """Yield every value of every table."""
    with database(path) as connection:
        connection.text_factory = bytes
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for row in connection.execute(f'SELECT * FROM "{table.decode()}"'):
                for value in row:
                    yield value if isinstance(value, bytes) else repr(value).encode()


def _parquet(path: Path) -> bytes:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    columns = [map(str, column.to_pylist()) for column in table.columns]
    return "\n".join(map(" ".join, zip(*columns, strict=True))).encode()
