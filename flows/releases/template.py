"""Specs for scheduled dates, written from a template whose release name contains `{date:...}`.

The same date always gives the same release name. So a run that starts twice, late or after a crash
continues the release that was started for its date.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dp_core.errors import BadInput
from dp_core.text.documents.node import Node
from dp_core.text.documents.strict_yaml import load
from dp_core.text.names import check_name
from tasks.support.run_folder import write_atomically

KEY = "release"
EXAMPLE = "release: panel-{date:%Y-%m}"
_PLACE = re.compile(r"\{([^{}]*)\}")
_DIRECTIVE = re.compile(r"%(.?)")
_DIRECTIVES = {
    "Y": "year",
    "m": "month",
    "d": "day",
    "H": "hour",
    "M": "minute",
    "S": "second",
    "j": "day of the year",
    "G": "year of the ISO week",
    "V": "ISO week",
    "q": "quarter",
}
_MARK = "# Written by dp-release from "


@dataclass(frozen=True, slots=True)
class Template:
    """A spec with a placeholder for the date in its release name.

    Attributes:
        path: Path of the template.
        text: Content of the file.
        name: Release name with the placeholder.
        line: Number of the line that holds the name, from 1.
    """

    path: Path
    text: str
    name: str
    line: int

    def release(self, moment: datetime) -> str:
        """Return the release name for a date.

        >>> Template(Path("x"), "", "rand-{date:%Yq%q}", 1).release(datetime(2026, 11, 1))
        'rand-2026q4'
        """
        return _PLACE.sub(lambda found: _format_time(found[1][len("date:") :], moment), self.name)

    def spec(self, moment: datetime) -> str:
        """Return the text of the spec for a date: the template with the date in the name."""
        release = self.release(moment)
        lines = self.text.splitlines()
        lines[self.line - 1] = lines[self.line - 1].replace(self.name, release, 1)
        return "\n".join([*lines, f"{_MARK}{self.path.name}."]) + "\n"

    def spec_path(self, release: str) -> Path:
        """Return the path of a release's spec, which lies beside the template.

        It must lie there because its paths to data and schema are relative to its own folder.
        """
        return self.path.parent / f"{release}.release.yaml"


def read_template(path: Path) -> Template:
    """Read a template.

    Args:
        path: Path of the template.

    Raises:
        BadInput: if the release name has no placeholder for the date, or another key has one.
    """
    path = Path(os.path.abspath(path))
    root = load(path).root
    entries = root.entries(example=f"`{EXAMPLE}`")
    if KEY not in entries:
        raise root.error(f"has no key {KEY!r}; a template names its releases, as in {EXAMPLE}.")
    for node in _scalars(entries):
        # A date in the data's path would read another file each time, which nobody approved.
        if node.key != KEY and "{date" in str(node.content):
            raise node.error(f"only {KEY!r} may contain a date, as in {EXAMPLE}.")
    place = entries[KEY]
    name = place.text(example="panel-{date:%Y-%m}").strip()
    found = _PLACE.findall(name)
    if not found:
        raise place.error(
            f"{name!r} is the same for every date; add a placeholder for the date, as in {EXAMPLE}."
        )
    for inner in found:
        _check_place(place, inner)
    text = path.read_text(encoding="utf-8")
    line = text.splitlines()[place.line - 1] if place.line else ""
    if name not in line or not line.lstrip().startswith((KEY, f'"{KEY}"', f"'{KEY}'")):
        raise place.error(f"write the key and its name on one line, as in {EXAMPLE}.")
    template = Template(path, text, name, place.line)
    try:
        check_name(template.release(datetime(2026, 12, 31, 23, 59, 59)), what="release")
    except BadInput as error:
        raise place.error(str(error)) from None
    return template


def write_spec(template: Template, moment: datetime, *, keep: bool) -> Path:
    """Write the spec of a date beside its template, and return its path.

    Args:
        template: The template.
        moment: Time that names the release, in the schedule's time zone.
        keep: Do not overwrite an existing spec, because its release was already started. Changes of
            the template then apply from the next release.

    Raises:
        BadInput: if a file that was not written from a template has that path, or the folder
            cannot be written.
    """
    path = template.spec_path(template.release(moment))
    before = None
    if path.exists():
        before = path.read_text(encoding="utf-8", errors="replace")
        if _MARK not in before:
            raise BadInput(
                f"The spec of this date cannot be written to {path}: a file that was not written"
                " from a template is there. Move it, or change the name in the template.",
                row="spec-in-the-way",
            )
    text = template.spec(moment)
    if before != text and not (keep and before is not None):
        _write(path, text)
    return path


def keep_copy(spec: Path, folder: Path) -> None:
    """Copy a spec to the folder of the bundles, for the record.

    Args:
        spec: Path of the spec.
        folder: Folder of the bundles.

    Raises:
        BadInput: if the folder cannot be written.
    """
    copy = folder / spec.name
    text = spec.read_text(encoding="utf-8")
    if not copy.exists() or copy.read_text(encoding="utf-8", errors="replace") != text:
        _write(copy, text)


def _write(path: Path, text: str) -> None:
    from dp_core.errors import StageFailed

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        path.chmod(0o644)
    except StageFailed:
        raise
    except OSError as error:
        raise BadInput(
            f"{path} could not be written ({os.strerror(error.errno or 0)}). Give the user that"
            " runs releases the right to write there.",
            row="spec-not-written",
        ) from None


def _scalars(entries: Mapping[str, Node]) -> Iterator[Node]:
    """Yield every scalar value in a mapping, at any depth."""
    for node in entries.values():
        if isinstance(node.content, Mapping):
            yield from _scalars(node.content)
        elif isinstance(node.content, tuple):
            yield from _scalars({str(number): each for number, each in enumerate(node.content)})
        else:
            yield node


def _check_place(place: Node, inner: str) -> None:
    kind, colon, form = inner.partition(":")
    if kind != "date" or not colon:
        raise place.error(f"{{{inner}}} is not a date placeholder; write it as in {EXAMPLE}.")
    letters = _DIRECTIVE.findall(form)
    known = ", ".join(f"%{letter} {what}" for letter, what in _DIRECTIVES.items())
    for letter in letters:
        if letter not in _DIRECTIVES:
            raise place.error(f"%{letter} is not a known part of a date; use {known}.")
    if not letters:
        raise place.error(f"{{{inner}}} is the same for every date; use {known}.")


def _format_time(form: str, moment: datetime) -> str:
    """Format a time with `strftime`, which has no directive for the quarter (`%q`)."""
    quarter = str((moment.month + 2) // 3)
    return moment.strftime(form.replace("%q", quarter))
