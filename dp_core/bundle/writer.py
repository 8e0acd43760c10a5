"""Writes the published folder completely or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dp_core.bundle.files.codebook import CODEBOOK, MARGINALS, codebook, set_paths
from dp_core.bundle.files.expectations_file import EXPECTATIONS, expectations_text
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
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.canonical import digest
from dp_core.metrics.marginal_error import HouseholdTally, Tally


def check_destination(folder: Path) -> None:
    """Check before anything is spent that a bundle can be written: a new name, or an empty folder.

    Raises:
        BadInput: if the folder is a file or contains files, or no folder can be created there.
    """
    folder = folder.absolute()
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise BadInput(
                f"The output folder {folder} is a file or a link; name a new folder.",
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
                f"The output folder {folder} cannot be created: you have no permission to"
                f" write to {above}, or it is not a folder.",
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
    """Whether a folder can be created in this one, found by trying."""
    # The name depends on the bundle only, so a probe left by a killed process is removed here.
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
    synthetic: Mapping[int, Path],
    tallies: Sequence[Tally],
    inspect: Callable[[Path], None] = lambda _: None,
    sign: Sign = lambda _: None,
) -> Path:
    """Write a complete bundle to `folder` and return it.

    Everything is written to a hidden folder beside it, synced, and renamed in one step, so a bundle
    that exists is complete. Its files are readable by all.

    Args:
        folder: A new or empty folder. If it already contains this bundle, it is left as it is: the
            program may have been interrupted after renaming.
        published: The release; the number of rows of each set is taken from the tallies.
        synthetic: Files of the sets by number (`Published.numbers`), written by `write_synthetic`;
            they are copied. Of linked tables, folders that contain a set's two files, each named
            after its table.
        tallies: One for each of the m sets, of the marginals in `table_fit.needed_counts`.
        inspect: Called with the complete hidden folder before it is renamed; an exception prevents
            publication. By default nothing is inspected.
        sign: Signs the statement with the ledger's key; by default it is not signed.

    Raises:
        BadInput: if the folder is neither new nor empty.
        StageFailed: if the disk is full or a file cannot be written; nothing is left behind.
    """
    if [*synthetic] != [*published.numbers] or len(tallies) != published.sets:
        raise ValueError(
            f"{published.sets} sets, but files {[*synthetic]} and {len(tallies)} tallies."
        )
    published = dataclasses.replace(
        published,
        rows=tuple(tally.rows for tally in tallies),
        persons=tuple(tally.persons for tally in tallies if isinstance(tally, HouseholdTally)),
    )
    folder = folder.absolute()
    if not (folder / STATEMENT).is_file():
        check_destination(folder)
    with hidden_folder(folder) as partial:
        _fill(partial, published, synthetic, tallies, sign)
        for path in [*_folders(partial), partial]:
            path.chmod(0o755)
            settle(path)
        inspect(partial)
        if (folder / STATEMENT).is_file() and _same(partial, folder):
            shutil.rmtree(partial)
        else:
            check_destination(folder)
    return folder


@contextlib.contextmanager
def hidden_folder(folder: Path) -> Iterator[Path]:
    """Give a hidden folder during a block; it becomes the new folder if the block succeeds.

    A block that deletes the hidden folder leaves the other one as it is.

    Args:
        folder: Absolute path of a new or empty folder.

    Raises:
        StageFailed: if the disk is full or a file cannot be written; nothing is left behind.
    """
    partial = folder.parent / f".{folder.name}.partial"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Left by an interrupted attempt.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o755)
        yield partial
        if partial.exists():
            os.rename(partial, folder)
        settle(folder.parent)
    except OSError as error:
        raise write_failure(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fill(
    folder: Path,
    published: Published,
    synthetic: Mapping[int, Path],
    tallies: Sequence[Tally],
    sign: Sign,
) -> None:
    files: dict[str, dict[str, object]] = {}
    if synthetic:
        (folder / "synthetic").mkdir()
    for number, source in synthetic.items():
        for name in set_paths(published.schema, number):
            place = source if published.schema.linked is None else source / Path(name).name
            if not place.is_file():
                raise StageFailed(
                    f"The synthetic file {name} is missing from the run's folder; resume the"
                    " release to draw it again at no cost.",
                    row="set-gone",
                )
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(place, folder / name)
            settle(folder / name)
            files[name] = file_record(folder / name)
    write_marginals(folder / MARGINALS, published.released, published.schema)
    files[MARGINALS] = file_record(folder / MARGINALS)
    texts: dict[str, bytes] = {}
    if published.not_met is not None:
        texts[EXPECTATIONS] = expectations_text(published.written, published.not_met)
    stated = statement(published, {})
    described = codebook(published.schema, files, stated["release"], published.sets)
    texts |= {
        CODEBOOK: render(described),
        REPORT: report(published, tallies).encode("utf-8"),
        CITATION: citation_text(stated),
        REGISTRY: registry_text(stated),
    }
    for name, text in texts.items():
        write_file(folder / name, text)
        files[name] = file_record(folder / name)
    write_file(folder / STATEMENT, render(statement(published, files, sign)))


def _same(first: Path, second: Path) -> bool:
    """Whether two folders contain the same files, byte by byte; only the signature may differ.

    The ledger's key may have been replaced between an interruption and the resumption.
    """

    def content(folder: Path) -> dict[str, object]:
        return {
            path.relative_to(folder).as_posix(): file_record(path)
            for path in folder.rglob("*")
            if not path.is_dir() and path != folder / STATEMENT
        } | {STATEMENT: _unsigned_statement(folder / STATEMENT)}

    return content(first) == content(second)


def _unsigned_statement(path: Path) -> bytes:
    """Return a statement without its signature; unchanged if it is damaged."""
    content = path.read_bytes()
    try:
        document = json.loads(content)
        own = document.pop("sha256")
        return statement_message(document) if own == digest(document) else content
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return content


def write_file(path: Path, content: bytes) -> None:
    """Write a file to disk before it returns."""
    path.write_bytes(content)
    settle(path)


def _folders(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*"), reverse=True) if path.is_dir()]
