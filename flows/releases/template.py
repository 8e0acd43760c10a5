"""The spec of one date, written from a template: a spec whose release name holds `{date:...}`.

The same date gives the same name, so that a schedule which fires twice, late or again after a crash
comes back to the release that it began.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dp_core.documents.names import check_name
from dp_core.documents.node import Node
from dp_core.documents.strict_yaml import load
from dp_core.errors import BadInput
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
    """A spec with a place for the date in its release name.

    Attributes:
        path: Its file.
        text: All of it.
        name: The release name with its place.
        line: Where the name stands, from 1.
    """

    path: Path
    text: str
    name: str
    line: int

    def release(self, moment: datetime) -> str:
        """Return the name of a moment's release.

        >>> Template(Path("x"), "", "rand-{date:%Yq%q}", 1).release(datetime(2026, 11, 1))
        'rand-2026q4'
        """
        return _PLACE.sub(lambda found: _formatted(found[1][len("date:") :], moment), self.name)

    def spec(self, moment: datetime) -> str:
        """Return the spec of a moment: as the template, with the name filled in."""
        release = self.release(moment)
        lines = self.text.splitlines()
        lines[self.line - 1] = lines[self.line - 1].replace(self.name, release, 1)
        return "\n".join([*lines, f"{_MARK}{self.path.name}."]) + "\n"

    def spec_path(self, release: str) -> Path:
        """Return where the spec of a release is written: beside the template.

        The spec names its data and schema from its own folder, and the statement repeats it.
        """
        return self.path.parent / f"{release}.release.yaml"


def read_template(path: Path) -> Template:
    """Read a template.

    Raises:
        BadInput: if it has no place for the date, or one elsewhere than in the release name.
    """
    path = Path(os.path.abspath(path))
    root = load(path).root
    entries = root.entries(example=f"`{EXAMPLE}`")
    if KEY not in entries:
        raise root.error(f"has no key {KEY!r}; a template names its releases, as in {EXAMPLE}.")
    for node in _scalars(entries):
        # `path: data-{date:%Y}.csv` would read another file each time, which nobody approved.
        if node.key != KEY and "{date" in str(node.content):
            raise node.error(f"only {KEY!r} may hold a date, as in {EXAMPLE}.")
    place = entries[KEY]
    name = place.text(example="panel-{date:%Y-%m}").strip()
    found = _PLACE.findall(name)
    if not found:
        raise place.error(
            f"{name!r} is the same at every date; write a place for the date, as in {EXAMPLE}."
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
    """Write the spec of a moment beside its template; return where.

    Args:
        template: The template.
        moment: In the schedule's time zone.
        keep: Leave a spec as it was written before: its release was begun by it, and a template
            that was changed since is for the next one.

    Raises:
        BadInput: if another's file is in the way, or the folder cannot be written.
    """
    path = template.spec_path(template.release(moment))
    before = None
    if path.exists():
        before = path.read_text(encoding="utf-8", errors="replace")
        if _MARK not in before:
            raise BadInput(
                f"{path} is in the way: the spec of this date is written there, and that file was"
                " not written from a template. Move it, or change the name in the template.",
                row="spec-in-the-way",
            )
    text = template.spec(moment)
    if before != text and not (keep and before is not None):
        _write(path, text)
    return path


def keep_copy(spec: Path, folder: Path) -> None:
    """Keep a copy of a spec beside its outputs, for the record.

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
            f"{path} could not be written ({os.strerror(error.errno or 0)}); let the user that runs"
            " releases write there: each date's spec is written beside its template.",
            row="spec-not-written",
        ) from None


def _scalars(entries: Mapping[str, Node]) -> Iterator[Node]:
    """Yield every single value below some keys."""
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
        raise place.error(f"{{{inner}}} is no place for the date; write it as in {EXAMPLE}.")
    letters = _DIRECTIVE.findall(form)
    known = ", ".join(f"%{letter} {what}" for letter, what in _DIRECTIVES.items())
    for letter in letters:
        if letter not in _DIRECTIVES:
            raise place.error(f"%{letter} is not known in a date; there are {known}.")
    if not letters:
        raise place.error(f"{{{inner}}} is the same at every date; there are {known}.")


def _formatted(form: str, moment: datetime) -> str:
    """Return a moment in a form of `strftime`, which knows no quarter."""
    quarter = str((moment.month + 2) // 3)
    return moment.strftime(form.replace("%q", quarter))
