"""Checks what a site sets for Prefect and Dask, before anything is reserved.

Otherwise Prefect and Dask would fail later, without naming the variable or the file.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput

if TYPE_CHECKING:
    from prefect.settings import Settings

_NOTHING = "This command spent nothing."
_ROW = "environment"


def require_dask_configuration() -> None:
    """Refuse a configuration of Dask that cannot be read, before Dask stops a later stage.

    Raises:
        BadInput: if one of its files is damaged; the message names it.
    """
    try:
        import dask.config  # noqa: F401 (reads the configuration)
    except Exception as error:
        said = str(error).partition(", original error")[0].partition("\n")[0].rstrip(":. ")
        raise BadInput(
            f"Dask's configuration cannot be read: {said}. Correct or move this file (Dask reads"
            f" ~/.config/dask, /etc/dask and what DASK_CONFIG names). {_NOTHING}",
            row=_ROW,
        ) from None


def prefect_settings() -> Settings:
    """Return Prefect's settings; import Prefect.

    Raises:
        BadInput: if they cannot be read. The message names the variables or the file, but no value.
    """
    with _heard_if_it_works():
        try:
            from prefect.settings import get_current_settings

            return get_current_settings()
        except Exception as error:
            # privacy: Prefect's own message shows values, which may be passwords.
            raise BadInput(
                f"Prefect's settings cannot be read: {_fault(error)}. {_NOTHING}", row=_ROW
            ) from None


@contextlib.contextmanager
def _heard_if_it_works() -> Iterator[None]:
    """Hold back standard error during a block, and drop it if the block fails."""
    heard = io.StringIO()
    with contextlib.redirect_stderr(heard):
        yield
    sys.stderr.write(heard.getvalue())


def require_a_server(settings: Settings) -> None:
    """Refuse settings under which Prefect has no server and may not start one.

    Raises:
        BadInput: if that is so.
    """
    if settings.api.url is None and not settings.server.ephemeral.enabled:
        raise BadInput(
            "Prefect has no server here: PREFECT_SERVER_ALLOW_EPHEMERAL_MODE (or"
            " PREFECT_SERVER_EPHEMERAL_ENABLED, or its profile) forbids a temporary one, and no"
            " PREFECT_API_URL names another. Unset the first, or set PREFECT_API_URL to the URL of"
            f" a server. {_NOTHING}",
            row=_ROW,
        )


def _fault(error: Exception) -> str:
    """Return what is wrong with Prefect's settings, and what to do."""
    for file in setting_files():
        try:
            if file.suffix == ".toml":
                tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as wrong:
            return f"{file} cannot be read ({type(wrong).__name__}); correct or move it"
    faults: list[Mapping[str, object]] = getattr(error, "errors", list)()
    ends = tuple("_".join(map(str, fault.get("loc") or ())) for fault in faults)  # type: ignore
    names = [
        name
        for name in os.environ
        if name.upper().startswith("PREFECT_")
        and any(end and name.upper().endswith(end.upper()) for end in ends)
    ]
    if names:
        return f"the value of {' and of '.join(sorted(names))} is not valid; correct or unset it"
    of = f" of {' and of '.join(sorted({*ends} - {''}))}" if any(ends) else ""
    files = ", ".join(str(file) for file in setting_files() if file.exists())
    return (
        f"a value{of} is not valid ({type(error).__name__}); correct it in the variables that begin"
        f" with PREFECT_{f' or in {files}' if files else ''}"
    )


def prefects_home() -> Path:
    """Return the folder of Prefect's files."""
    named = {name.upper(): value for name, value in os.environ.items()}
    return Path(named.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()


def setting_files() -> tuple[Path, ...]:
    """Return the files from which Prefect reads settings; they need not exist."""
    named = {name.upper(): value for name, value in os.environ.items()}
    profiles = named.get("PREFECT_PROFILES_PATH") or prefects_home() / "profiles.toml"
    own = (Path(one) for one in ("prefect.toml", "pyproject.toml", ".env"))
    return (Path(profiles).expanduser(), *own)
