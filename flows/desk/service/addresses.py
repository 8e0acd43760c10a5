"""Where the service listens: without TLS only on the loopback interface."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from dp_core.errors import BadInput

HOST = "127.0.0.1"
PORT = 8085


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how the service listens.

    Attributes:
        host: Address; 127.0.0.1 by default.
        port: Port; 0 chooses a free one; 8085 by default.
        certificate: PEM file of the TLS certificate and its chain; None for HTTP.
        key: PEM file of its key; None for HTTP.
        behind_proxy: Whether a TLS proxy is in front of the service; False by default.
    """

    host: str = HOST
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False

    @property
    def url(self) -> str:
        """URL without the path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


def check_listening(given: Listening) -> Listening:
    """Return where to listen, if tokens and answers are protected on the network.

    Raises:
        BadInput: if other machines can reach the address and there is neither TLS nor a proxy, or
            if the certificate or key cannot be used.
    """
    if (given.certificate is None) != (given.key is None):
        raise BadInput("--tls-cert and --tls-key belong together; give both.")
    if not 0 <= given.port < 65536:
        raise BadInput(f"--port must be between 0 and 65535, not {given.port}.")
    if given.certificate is not None and given.key is not None:
        _check_pair(given.certificate, given.key)
    elif not is_loopback(given.host) and not given.behind_proxy:
        raise BadInput(
            f"--host {given.host!r:.60} can be reached from other machines, so tokens would cross"
            " the network unencrypted. Give --tls-cert and --tls-key (deployments/tls.py makes"
            " them), or --behind-tls-proxy if a TLS proxy is in front of the service."
        )
    return given


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_pair(certificate: Path, key: Path) -> None:
    """Check that a certificate and a key can be read and belong together.

    Raises:
        BadInput: if they cannot be used, or others may read the key.
    """
    try:
        others = key.stat().st_mode & 0o077
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            certificate, key, password=""
        )
    except (OSError, ssl.SSLError):
        raise BadInput(
            f"--tls-cert {certificate} and --tls-key {key} are not a certificate and its key in"
            " PEM; deployments/tls.py makes such files."
        ) from None
    if others & 0o007:
        raise BadInput(f"Every user of this machine can read {key}; type: chmod 600 {key}")
