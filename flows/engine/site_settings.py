"""Checks what a site sets for Prefect, Dask and Numba, before anything is reserved.

Otherwise these libraries would fail later, without naming the variable or the file.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import ssl
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_core.errors import BadInput

if TYPE_CHECKING:
    from prefect.settings import Settings

_NOTHING = "This command spent nothing."
_ROW = "environment"
_DATABASE = ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "PREFECT_API_DATABASE_CONNECTION_URL")
"""Names of the setting that has the database of Prefect's server; not used if one is named."""
_LONGEST_S = 1e6
EPHEMERAL = ("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "PREFECT_SERVER_EPHEMERAL_ENABLED")
"""Names of the setting that allows a temporary server."""


def _has_certificates(path: str) -> bool:
    try:
        ssl.create_default_context(cafile=Path(path).expanduser())
    except OSError:
        return False
    return True


def _is_for_prefects_server(url: str) -> bool:
    import sqlalchemy as sa

    try:
        return sa.make_url(url).drivername in ("sqlite+aiosqlite", "postgresql+asyncpg")
    except (sa.exc.ArgumentError, ValueError):
        return False


def _is_mapping_of_yaml(path: str) -> bool:
    """Return whether a file has a mapping as YAML, is empty, or is not there."""
    import yaml

    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        return isinstance(yaml.safe_load(text) or {}, dict)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, yaml.YAMLError):
        return False


class _Condition(NamedTuple):
    """What a value must be.

    Attributes:
        names: Variables, and names of files, in upper case; the value of a file is its path.
        is_met: Whether a value that is not empty can be used.
        otherwise: What is wrong if not, and what to do; follows the name.
    """

    names: tuple[str, ...]
    is_met: Callable[[str], bool]
    otherwise: str


def _is_possible_time(value: str) -> bool:
    """Return whether a text is a number of seconds that Python can wait for, or no number."""
    try:
        return 0 < float(value) <= _LONGEST_S
    except ValueError:
        return True  # Prefect itself refuses it


_CONDITIONS = (
    _Condition(
        ("SSL_CERT_FILE", "PREFECT_API_SSL_CERT_FILE"),
        _has_certificates,
        "names no file of certificates that can be read; correct the path or the file's rights, or"
        " unset it",
    ),
    _Condition(
        _DATABASE,
        _is_for_prefects_server,
        "holds no URL of a database that Prefect's server can use; write one that begins with"
        " postgresql+asyncpg:// or sqlite+aiosqlite:///, or unset it",
    ),
    _Condition(
        ("PREFECT_LOGGING_CONFIG_PATH", "PREFECT_LOGGING_SETTINGS_PATH"),
        _is_mapping_of_yaml,
        "names a file that cannot be read as YAML; correct the file, or unset it",
    ),
    _Condition(
        ("PREFECT_API_REQUEST_TIMEOUT", "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"),
        _is_possible_time,
        "holds no possible time-out; write seconds above 0, up to 1,000,000, or unset it",
    ),
    _Condition(
        ("LOGGING.YML", ".NUMBA_CONFIG.YAML"),
        _is_mapping_of_yaml,
        "cannot be read as YAML; correct or move this file",
    ),
)


def require_usable_values() -> None:
    """Refuse values of variables, and files, that the libraries cannot use.

    Raises:
        BadInput: if there is one. The message names the variable or the file, but no value.
    """
    paths = (prefects_home() / "logging.yml", Path(".numba_config.yaml").absolute())
    files = {path.name: str(path) for path in paths}
    unused = _DATABASE if os.environ.get("PREFECT_API_URL") else ()
    values = {name: value for name, value in os.environ.items() if name.upper() not in unused}
    _require({**values, **files}, lambda name: files.get(name, name))


def _require(values: Mapping[str, str | None], place: Callable[[str], str]) -> None:
    """Refuse values that do not meet their condition.

    Args:
        values: Values by their names; None and empty values are not used.
        place: Returns where a value was set.

    Raises:
        BadInput: if there is one.
    """
    for name, value in values.items():
        for condition in _CONDITIONS:
            if value and name.upper() in condition.names and not condition.is_met(value):
                raise BadInput(f"{place(name)} {condition.otherwise}. {_NOTHING}", row=_ROW)


def require_dask_configuration() -> None:
    """Refuse a configuration of Dask that cannot be read, before Dask stops a later stage.

    Raises:
        BadInput: if that is so; the message names the variables or the damaged file.
    """
    fault = _fault_of_dask()
    if fault is None:
        return

    def anew() -> str | None:
        sys.modules.pop("dask.config", None)
        return _fault_of_dask()

    names = _responsible("DASK_", anew)
    # The variable of the folder is no fault itself: the message then names the file.
    if names and names != ["DASK_CONFIG"]:
        what = f"the value of {' and of '.join(names)} is not valid; correct or unset it"
    else:
        what = (
            f"{fault}. Correct or move this file (Dask reads ~/.config/dask, /etc/dask and what"
            " DASK_CONFIG names)"
        )
    raise BadInput(f"Dask's configuration cannot be read: {what}. {_NOTHING}", row=_ROW)


def _fault_of_dask() -> str | None:
    try:
        import dask.config  # noqa: F401 (reads the configuration)
    except Exception as error:
        return str(error).partition(", original error")[0].partition("\n")[0].rstrip(":. ")
    return None


def _responsible(prefix: str, fault: Callable[[], object]) -> list[str]:
    """Return the variables without each of which a library has another fault, or none.

    Args:
        prefix: What the names of the library's variables begin with, in upper case.
        fault: Returns what is wrong with the library's settings; None if nothing is.
    """
    before, found = fault(), []
    for name in sorted(os.environ):
        if name.upper().startswith(prefix):
            value = os.environ.pop(name)
            try:
                if fault() != before:
                    found.append(name)
            finally:
                os.environ[name] = value
    return found


def prefect_settings(*, own_server: bool = False) -> Settings:
    """Return Prefect's settings; import Prefect.

    Args:
        own_server: Whether the server that they name is the program's own, which uses the database
            that they name; False by default.

    Raises:
        BadInput: if they cannot be read, or Prefect cannot use one. The message names the variables
            or the file, but no value.
    """
    with _heard_if_it_works():
        try:
            from prefect.settings import get_current_settings

            settings = get_current_settings()
        except Exception as error:
            # privacy: Prefect's own message shows values, which may be passwords.
            raise BadInput(
                f"Prefect's settings cannot be read: {_fault(error)}. {_NOTHING}", row=_ROW
            ) from None
    url = settings.server.database.connection_url
    used = own_server or not settings.api.url
    # Values of variables are usable: what is wrong now comes from a file.
    _require(
        {
            "PREFECT_API_SSL_CERT_FILE": settings.api.ssl_cert_file,
            _DATABASE[0]: url.get_secret_value() if url and used else None,
            "PREFECT_LOGGING_CONFIG_PATH": str(settings.logging.config_path),
            "PREFECT_API_REQUEST_TIMEOUT": str(settings.api.request_timeout),
        },
        place_of_setting,
    )
    return settings


def place_of_setting(*names: str) -> str:
    """Return where a setting is set: its variable, or its name in one of Prefect's files.

    Args:
        names: The names of its variable, in upper case.
    """
    for name, value in os.environ.items():
        if value and name.upper() in names:
            return name
    found = [f"{name} in {file}" for name in names for file in files_with({name})]
    return " or ".join(found or names)


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
            f"Prefect has no server here: {place_of_setting(*EPHEMERAL)} forbids a temporary one,"
            " and no PREFECT_API_URL names another. Remove the first, or set PREFECT_API_URL to"
            f" the URL of a server. {_NOTHING}",
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
    names = _responsible("PREFECT_", _fault_of_prefect)
    if names:
        return f"the value of {' and of '.join(names)} is not valid; correct or unset it"
    ends = {field.upper() for field, _ in _invalid_fields(error)}
    of = f" of {' and of '.join(sorted(ends))}" if ends else ""
    files = files_with(ends) or [file for file in setting_files() if file.exists()]
    where = " or in ".join(map(str, files)) or "the variables that begin with PREFECT_"
    return f"a value{of} is not valid ({type(error).__name__}); correct it in {where}"


def _fault_of_prefect() -> object:
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            from prefect.settings import Settings

            Settings()
        except Exception as error:
            return _invalid_fields(error) or type(error)
    return None


def _invalid_fields(error: Exception) -> set[tuple[str, str]]:
    """Return the names of the settings that an error of Pydantic is about, and what is wrong."""
    faults: list[Mapping[str, Any]] = getattr(error, "errors", list)()
    fields = {
        ("_".join(map(str, fault.get("loc") or ())), str(fault.get("type"))) for fault in faults
    }
    return {(name, kind) for name, kind in fields if name and kind != "default_factory_not_called"}


def files_with(ends: set[str]) -> list[Path]:
    """Return the files that set something whose name ends so.

    Args:
        ends: Ends of names of settings, in upper case.
    """
    found = []
    for file in setting_files():
        with contextlib.suppress(OSError, ValueError):
            text = file.read_text(encoding="utf-8")
            if file.suffix == ".toml":
                names = leaves(tomllib.loads(text))
            else:
                names = set(re.findall(r"^\s*(?:export\s+)?(\w+)\s*=", text, re.MULTILINE))
            known = {"PREFECT_" + name.replace(".", "_").upper() for name in names}
            if any(name.endswith(end.removeprefix("PREFECT_")) for name in known for end in ends):
                found.append(file)
    return found


def leaves(settings: Mapping[str, object], above: str = "") -> set[str]:
    """Return the full names of settings in a tree, such as `server.api.port`."""
    found = set[str]()
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= leaves(value, f"{above}{name}.")
        else:
            found.add(above + name)
    return found


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
