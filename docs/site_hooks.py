"""What the site shows besides the pages: commands and modules, from the code itself.

Pages link to files of the project (`../dp_core/client/curator.py`), which are no pages: a link to a
module becomes one to its reference, any other is shown as the file's name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "dp_core"
INNER = "kernels"
"""Packages of compiled loops: whoever reads those reads their code."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {"reference/commands.md": commands_page(), "reference/python.md": python_page()}
    for name, modules in packages().items():
        pages[f"reference/{name}.md"] = module_page(name, modules)
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_config(config: Any) -> Any:
    """List the generated pages in the navigation."""
    reference = next(item["Reference"] for item in config["nav"] if "Reference" in item)
    known = [entry for item in reference for entry in item.values()]
    for name in packages():
        path = f"reference/{name}.md"
        if path not in known:
            reference.append({name: path})
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that leave the documentation into links within it, or into plain names."""
    here = posixpath.dirname(page.file.src_uri)

    def rewritten(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        path = posixpath.normpath(posixpath.join("docs", here, target))
        if "://" in target or path.startswith("docs/"):
            return match[0]
        reference = _reference(path)
        if reference is not None:
            return f"[{text}]({posixpath.relpath(reference, here or '.')})"
        if "`" in text:
            return text
        return f"`{path}`" if path in text else f"{text} (`{path}`)"

    return _LINK.sub(rewritten, markdown)


def packages() -> dict[str, list[str]]:
    """Return the modules of every package of the library, by the package's name."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.name != "__init__.py" and INNER not in parts:
            found.setdefault(".".join(parts[:-1]), []).append(".".join(parts))
    return found


def module_page(package: str, modules: list[str]) -> str:
    """Return the reference of a package: every public name, from its docstring."""
    return "\n\n".join([f"# {package}", *(f"::: {module}" for module in modules)]) + "\n"


def commands_page() -> str:
    """Return the reference of the command line: every command with its help."""
    from flows.cli.main import cli

    every = list(_commands(cli, ["dp-release"]))
    without = [
        f"`{' '.join(words[1:])}`"
        for words, command in every
        if not isinstance(command, click.Group)
        and not any("--json" in option.opts for option in command.params)
    ]
    taken = f"Every command but {', '.join(without)} takes `--json`." if without else ""
    parts = ["# Commands", f"As `--help` prints them. {taken or 'Every command takes `--json`.'}"]
    for words, command in every:
        context = click.Context(command, info_name=" ".join(words))
        parts.append(f"## {' '.join(words)}\n\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts) + "\n"


def python_page() -> str:
    """Return the reference of the public names of `dp_core` and `flows`, from their docstrings."""
    import dp_core
    import flows

    parts = ["# Python", "The public names: `import dp_core as dp`, and `from flows import run`."]
    for package in (dp_core, flows):
        parts.append(f"## {package.__name__}")
        # Functions before the classes of what they return.
        for name in sorted(package.__all__, key=lambda name: (name[0].isupper(), name)):
            shown = f"{package.__name__}.{name}"
            home = getattr(package, name).__module__
            options = "    options: {show_root_heading: false, heading_level: 4}"
            parts.append(f"### `{shown}`\n\n::: {home}.{name}\n{options}")
    return "\n\n".join(parts) + "\n"


def _commands(
    command: click.Command, words: list[str]
) -> Iterator[tuple[list[str], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, inner in sorted(command.commands.items()):
            yield from _commands(inner, [*words, name])


def _reference(path: str) -> str | None:
    """Return the page that documents a file or folder of the library, None where none does."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    known = packages()
    if name in known:
        return f"reference/{name}.md"
    package = name.rpartition(".")[0]
    if package in known and name in known[package]:
        return f"reference/{package}.md#{name}"
    return None
