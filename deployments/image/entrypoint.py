"""Puts secrets from files into the environment, and becomes the command that it is given.

For each variable NAME_FILE, the content of that file becomes NAME; the file is a secret that the
container was given, so that no secret stands in an image, a compose file or a command line. In
every other variable, ${NAME} is replaced by such a secret, as in a database's URL.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

SUFFIX = "_FILE"
NOT_OURS = ("PREFECT_API_SSL_CERT_FILE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE_FILE")
_PLACE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


def with_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the secrets that it names files of.

    Raises:
        SystemExit: with one sentence, if a file cannot be read or a secret is missing.
    """
    secrets: dict[str, str] = {}
    for name, path in environment.items():
        # Prefect and Dask have names of their own that end so, and mean certificates.
        if not name.endswith(SUFFIX) or name in NOT_OURS or "TLS" in name:
            continue
        try:
            secrets[name.removesuffix(SUFFIX)] = Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            sys.exit(f"{name} names {path}, which cannot be read ({error.strerror}).")
    kept = {
        name: value
        for name, value in environment.items()
        if name.removesuffix(SUFFIX) not in secrets or not name.endswith(SUFFIX)
    }

    def fill(name: str, value: str) -> str:
        def secret(found: re.Match[str]) -> str:
            if found[1] not in secrets:
                sys.exit(f"{name} needs the secret {found[1]}: give {found[1]}{SUFFIX}.")
            # A password in a URL may hold any character.
            return quote(secrets[found[1]], safe="")

        return _PLACE.sub(secret, value)

    return {name: fill(name, value) for name, value in kept.items()} | secrets


def main() -> None:
    """Become the command."""
    command = sys.argv[1:]
    if not command:
        sys.exit("Name a command, such as `dp-release --help`.")
    os.execvpe(command[0], command, with_secrets(os.environ))


if __name__ == "__main__":
    main()
