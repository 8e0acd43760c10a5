"""The environment of a process, and what the program corrects in it.

A site sets proxies, a locale, a umask and options of Numba for all its programs, not for this one
in particular.
"""

from __future__ import annotations

import codecs
import contextlib
import ipaddress
import locale
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from dp_core.errors import BadInput

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names under which the program connects to its own servers, which are on this machine."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def correct_environment() -> None:
    """Let connections to this machine use no proxy, and let the owner read all files.

    Variables with a proxy that Prefect's client cannot use, such as SOCKS without its package, are
    removed: with them, the client would not start even for this machine. So are hosts of NO_PROXY
    that it cannot read, such as a range of IPv6 addresses. So are Numba's options, except for the
    folder of compiled loops: the program needs them compiled as it was tested.

    Privacy:
        Private folders have a fixed mode, whatever the umask. The umask may take rights from
        others, but not from the owner. Nobody but the owner and the group may write other files.
    """
    os.umask(os.umask(0o077) & 0o077 | 0o002)
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        if name != "NUMBA_CACHE_DIR":
            del os.environ[name]
    os.environ["NUMBA_DISABLE_JIT"] = "0"  # a variable precedes Numba's file in the working folder
    proxies = [name for name in os.environ if name.lower() in _PROXIES]
    for name in proxies:
        if not _is_usable(os.environ[name]):
            del os.environ[name]
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if given or proxies:
        hosts = [host for host in map(str.strip, given.split(",")) if _is_host(host)]
        direct = ",".join(dict.fromkeys([*hosts, *LOOPBACK])) if "*" not in hosts else "*"
        os.environ.update(no_proxy=direct, NO_PROXY=direct)


def _is_usable(proxy: str) -> bool:
    """Return whether Prefect's client can use a proxy."""
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        usable = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    kinds = ("http", "https", *(("socks5", "socks5h") if find_spec("socksio") else ()))
    return bool(usable) and parts.scheme in kinds


def _is_host(text: str) -> bool:
    """Return whether Prefect's client can read an entry of NO_PROXY.

    >>> [text for text in ("10.0.0.0/8", "::1", ".a.example:80", "fd00::/8") if _is_host(text)]
    ['10.0.0.0/8', '::1', '.a.example:80']
    """
    with contextlib.suppress(ValueError):
        return "%" not in str(ipaddress.ip_address(text))
    found = re.fullmatch(r"([a-z0-9]+://)?[A-Za-z0-9*._-]+(:([0-9]{1,5}))?(/[0-9]*)?", text)
    return found is not None and int(found[3] or 0) < 1 << 16


def python_environment() -> dict[str, str]:
    """Return the environment in which Python reads and writes UTF-8, and keeps its assertions."""
    without = ("PYTHONIOENCODING", "PYTHONOPTIMIZE")
    return {name: text for name, text in os.environ.items() if name not in without} | {
        "PYTHONUTF8": "1"
    }


def environment() -> dict[str, str]:
    """Return the environment of a process of this program: UTF-8, and where to find the program."""
    root = str(Path(__file__).parents[2])
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**python_environment(), "PYTHONPATH": os.pathsep.join(dict.fromkeys([*known, root]))}


def restart_in_utf8() -> None:
    """Start Python again if it does not read and write UTF-8, or leaves assertions out.

    With another encoding, by the locale or PYTHONIOENCODING, an umlaut in a path, a level or an
    answer would stop a command.
    """
    streams = (sys.stdin, sys.stdout, sys.stderr)
    encodings = {
        sys.getfilesystemencoding(),
        locale.getpreferredencoding(False),
        *(stream.encoding for stream in streams if stream is not None and stream.encoding),
    }
    if __debug__ and all(codecs.lookup(one).name == "utf-8" for one in encodings):
        return
    wanted = python_environment()
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], wanted)


def require_assertions() -> None:
    """Refuse to run if Python leaves assertions out.

    Raises:
        BadInput: if it does.
    """
    if not __debug__:
        raise BadInput(
            "Python leaves out assertions here (its option -O); start it without this option, and"
            " unset PYTHONOPTIMIZE. This command spent nothing.",
            row="environment",
        )
