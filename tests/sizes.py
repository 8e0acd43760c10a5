"""The sizes of the rooms, and the limits of `tests/sizes.toml` that they may not exceed.

    python -m tests.sizes            # prints size and limit of every room
    python -m tests.sizes --lower    # lowers each limit to the size; raises none

A limit is raised by hand, in a commit that says what users get for it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "tests" / "sizes.toml"
PACKAGES = ("dp_core", "tasks", "flows")

Sizes = Mapping[str, Mapping[str, int]]
"""For each unit of size, the size by name of the room."""


def measured_sizes(root: Path = ROOT) -> Sizes:
    """Return the lines of every room, and the words of the documentation.

    A room is a folder directly inside `dp_core`, `tasks` or `flows`. Files directly inside these
    count for `dp_core/*.py` and so on. `product` is the sum of all; `tests` is all Python in tests.

    Args:
        root: Folder of the project.
    """
    lines = {"product": 0}
    for package in PACKAGES:
        for file in _files(root, package):
            inside = file.relative_to(root / package).parts
            room = f"{package}/{inside[0]}" if len(inside) > 1 else f"{package}/*.py"
            count = _lines(file)
            lines[room] = lines.get(room, 0) + count
            lines["product"] += count
    lines["tests"] = sum(map(_lines, _files(root, "tests")))
    pages = [root / "README.md", root / "CHANGELOG.md", *(root / "docs").glob("*.md")]
    words = {page.relative_to(root).as_posix(): len(page.read_text().split()) for page in pages}
    guides = sum(count for name, count in words.items() if name.startswith("docs/"))
    outside = {name: words[name] for name in ("README.md", "CHANGELOG.md")}
    return {"lines": dict(sorted(lines.items())), "words": {"docs": guides, **outside}}


def stated_limits(path: Path = LIMITS) -> Sizes:
    """Return the limits of `tests/sizes.toml`."""
    found: Sizes = tomllib.loads(path.read_text(encoding="utf-8"))
    return found


def faults(sizes: Sizes, limits: Sizes) -> list[str]:
    """Return what a size does that its limit forbids, a sentence each.

    Args:
        sizes: As `measured_sizes` returns them.
        limits: As `stated_limits` returns them.
    """
    found = []
    for unit, measured in sizes.items():
        stated = limits.get(unit, {})
        for room, size in measured.items():
            limit = stated.get(room)
            if limit is None:
                found.append(f"{room} has {size} {unit} and no limit.")
            elif size > limit:
                found.append(
                    f"{room} has {size} {unit}; its limit is {limit}. Delete what the change makes"
                    " superfluous. If users get something for the rise, raise the limit, and say"
                    " in the commit what."
                )
            elif size < limit:
                found.append(
                    f"{room} has {size} {unit}, fewer than its limit of {limit}:"
                    " `python -m tests.sizes --lower`."
                )
        found += [
            f"{room} has a limit and does not exist." for room in stated.keys() - measured.keys()
        ]
    return found


def lower(path: Path, sizes: Sizes) -> None:
    """Lower the limits of a file to the sizes; leave out rooms that no longer exist.

    Args:
        path: The file of the limits.
        sizes: As `measured_sizes` returns them.
    """
    kept, unit = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if table := re.fullmatch(r"\[(\w+)\]", line):
            unit = table[1]
        if entry := re.fullmatch(r'"?([^"#=]+?)"? = (\d+)', line):
            size = sizes[unit].get(entry[1])
            if size is None:
                continue
            line = line.removesuffix(entry[2]) + str(min(size, int(entry[2])))
        kept.append(line)
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")


def _files(root: Path, folder: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--", f"{folder}/*.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [root / name for name in listed.stdout.splitlines() if (root / name).exists()]
    return sorted((root / folder).rglob("*.py"))  # not a clone


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def main() -> None:
    """Print or lower the limits."""
    sizes = measured_sizes()
    if sys.argv[1:] == ["--lower"]:
        lower(LIMITS, sizes)
    limits = stated_limits()
    for unit, measured in sizes.items():
        for room, size in measured.items():
            sys.stdout.write(f"{size:>8} of {limits[unit].get(room, 0):>8} {unit}  {room}\n")


if __name__ == "__main__":
    main()
