"""Reference pages that are made from the code: methods with their options, and exit codes.

What the pages say is what the docstrings say: a method's module, its class, and the line of each
option under `Attributes`. Nothing of it is written a second time.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any

from dp_core import errors
from dp_core.methods import registry
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.plan.presets import PRESETS

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

FAMILIES: dict[registry.Family, str] = {
    "selection": "Selection (`select.method`)",
    "reconstruction": "Reconstruction (`reconstruct.method`)",
    "parametric": "Parametric methods (`synthesize.method`)",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages; `mkdocs.yml` lists them in the navigation."""
    from mkdocs.structure.files import File  # not installed where tests read these pages

    pages = {"methods.md": methods_page(), "exit-codes.md": exit_codes_page()}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def methods_page() -> str:
    """Return the presets, and every method with the default and the meaning of each option."""
    parts = [
        "# Methods and their options",
        "Options are written under the key of their stage in the spec, such as"
        " `select: {method: auto, order: 2}`. [Methods](../methods.md) says what each is for.",
        "## Presets",
        presets_table(),
    ]
    for family, heading in FAMILIES.items():
        parts.append(f"## {heading}")
        for name in registry.available(family):
            method = registry.find(family, name)
            module = method.__module__
            page = f"{module.rpartition('.')[0]}.md#{module}"
            parts.append(f"### {name}\n\n{summary(method)} ([{name}.py]({page}))")
            rows = [
                f"| `{option}` | {_cell(default)} | {_cell(meaning)} |"
                for option, default, meaning in options(method)
            ]
            if rows:
                parts.append("\n".join(["| option | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def presets_table() -> str:
    """Return the table of presets: stages, shares of the budget, noise, options that differ."""
    lines = ["| preset | stages | shares | noise | options |", "|---|---|---|---|---|"]
    for name, preset in PRESETS.items():
        stages = f"`{preset.synthesize or f'{preset.select}` + `{preset.reconstruct}'}`"
        shares = ", ".join(f"`{stage}` {share}" for stage, share in preset.shares.items())
        stated = [
            f"`{stage}.{option}: {value}`"
            for stage, values in preset.options.items()
            for option, value in values.items()
        ]
        noise = preset.noise or "the smaller"
        lines.append(f"| `{name}` | {stages} | {shares} | {noise} | {', '.join(stated)} |")
    return "\n".join(lines)


def summary(method: type) -> str:
    """Return the first sentence of a method's docstring."""
    return (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ")


def options(method: Any) -> list[tuple[str, str, str]]:
    """Return name, default and meaning of each option; the meaning is empty if it has none."""
    meanings: dict[str, str] = {}
    for each in reversed(method.__mro__):
        meanings |= attributes(each)
    return [
        (field.name, _default(field), meanings.get(field.name, ""))
        for field in dataclasses.fields(method)
        if field.metadata != NO_OPTION
    ]


def attributes(cls: type) -> dict[str, str]:
    """Return the items of `Attributes` in the docstring of a class, by name."""
    section = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")[2]
    text = textwrap.dedent(re.split(r"\n(?=\S)", section)[0])
    items = re.split(r"^(\w+): ", text, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(meaning.split())
        for name, meaning in zip(items[::2], items[1::2], strict=True)
    }


def exit_codes_page() -> str:
    """Return the exit codes of the commands with the errors that cause them."""
    from flows.cli.main import INTERRUPTED

    found: dict[int, list[str]] = {0: ["Done."], INTERRUPTED: ["Interrupted by the keyboard."]}
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.ReleaseError):
            found.setdefault(kind.exit_code, []).append(f"`{kind.__name__}`: {summary(kind)}")
    rows = [f"| {code} | {_cell('<br>'.join(found[code]))} |" for code in sorted(found)]
    table = "\n".join(["| code | error of the library, and what happened |", "|---|---|", *rows])
    return f"# Exit codes\n\nOf every command.\n\n{table}\n"


def _default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{field.default}`"
    made = field.default_factory
    return f"`{made()}`" if made is not dataclasses.MISSING else "required"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
