"""What to install if a command needs a package that is not there.

`pip install dp-release` installs what readers of a bundle need. `dp-release[pipeline]` also
installs what releases with a ledger need. A command imports these packages where it uses them, so
it notices a missing one before it has done anything.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

PIPELINE = frozenset(
    (
        "dask",
        "distributed",
        "fastapi",
        "fsspec",
        "great_expectations",
        "httpx",
        "matplotlib",
        "prefect",
        "prometheus_client",
        "psutil",
        "psycopg",
        "sklearn",
        "sqlalchemy",
        "starlette",
        "uvicorn",
    )
)
"""Packages of the extra `pipeline` of pyproject.toml, by the names that are imported."""

BESIDES = frozenset(("pydantic",))
"""Packages that come with those, and are imported by their names too."""

UNIX = frozenset(("fcntl", "resource", "termios"))
"""Modules of Python that Windows does not have."""


def is_needed_by_pipeline(error: ModuleNotFoundError) -> bool:
    """Return whether a missing module belongs to the extra `pipeline`, or to Unix."""
    package = (error.name or "").partition(".")[0]
    return package in PIPELINE | BESIDES | UNIX


def what_to_install(error: ModuleNotFoundError) -> str | None:
    """Return a sentence that says what to install; None if that would not help.

    Args:
        error: A failed import.
    """
    if not is_needed_by_pipeline(error):
        return None
    package = (error.name or "").partition(".")[0]
    if package in UNIX or sys.platform == "win32":
        return (
            "This command needs Linux; on Windows, install dp-release in WSL (docs/install.md)."
            " macOS is untested."
        )
    return (
        f"This command needs the extra `pipeline` (the package {package} is not installed); type:"
        f" {command()}"
    )


def require_pipeline() -> None:
    """Refuse to begin a release or service that would lack a package later.

    Raises:
        ModuleNotFoundError: if a package of the extra `pipeline` is not installed.
    """
    for package in sorted(PIPELINE):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def command() -> str:
    """Return the command that adds the extra to this installation."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return 'pipx runpip dp-release install "dp-release[pipeline]"'
    return 'python -m pip install "dp-release[pipeline]"'
