"""The address of a Dask scheduler, which gets exact counts under TLS or on this machine only."""

from __future__ import annotations

from urllib.parse import urlsplit

from dp_core.errors import BadInput
from dp_core.text.documents.typed_text import quote
from tasks.support.process_environment import LOOPBACK

ENCRYPTED = ("tls", "gateway", "inproc")
"""Schemes of addresses under which counts travel in TLS, or stay in this process."""


def check_address(address: str | None) -> None:
    """Refuse a text that is no address, and a scheduler that would get exact counts unencrypted.

    Args:
        address: Address of the scheduler; None for no cluster.

    Raises:
        BadInput: if it is no address, or neither `tls://` nor on this machine.
    """
    if address is None:
        return
    if not _is_address(address):
        raise BadInput(
            f"{quote(address)} is not the address of a Dask scheduler; give its host and port, such"
            " as tls://10.0.0.1:8786."
        )
    if not is_encrypted(address):
        raise BadInput(
            f"Exact counts would be sent to the Dask scheduler {address!r} unencrypted;"
            " use a tls:// address.",
            row="dask-in-clear",
        )


def _is_address(address: str) -> bool:
    """Return whether a text has the form of an address that Dask can connect to."""
    try:
        url = urlsplit(address if "://" in address else f"tcp://{address}")
        # Addresses within this process, and those of a gateway, need no port.
        return url.scheme in ("inproc", "gateway") or (
            url.scheme in ("tls", "tcp") and bool(url.hostname and url.port)
        )
    except ValueError:
        return False


def is_encrypted(address: str) -> bool:
    """Return whether counts that are sent to an address are encrypted or stay on this machine.

    >>> is_encrypted("tls://10.0.0.1:8786"), is_encrypted("tcp://10.0.0.1:8786")
    (True, False)
    >>> is_encrypted("tcp://127.0.0.1:8786")
    True
    """
    url = urlsplit(address)
    return url.scheme in ENCRYPTED or url.hostname in LOOPBACK
