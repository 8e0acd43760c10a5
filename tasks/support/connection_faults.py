"""Why a database did not accept a connection, in words that contain no part of its URL.

Drivers report the cause as text only: PostgreSQL sends no error code before a connection exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionFault:
    """A cause that a driver's message tells.

    Attributes:
        told_by: Regular expression of the driver's message, in small letters.
        says: What the database does or lacks, as the end of a sentence about it.
        remedy: What a person can do, as a request.
    """

    told_by: str
    says: str
    remedy: str


_CREDENTIALS = "correct the user or the password"

FAULTS = (
    ConnectionFault(
        "password authentication failed|access denied",
        "refuses the user or the password",
        _CREDENTIALS,
    ),
    ConnectionFault("no password supplied", "requires a password", "give the password"),
    ConnectionFault(
        "no pg_hba.conf entry",
        "does not admit this user from this machine",
        "allow this user and machine in its pg_hba.conf",
    ),
    ConnectionFault('role ".*" does not exist', "has no such user", _CREDENTIALS),
    ConnectionFault(
        'database ".*" does not exist|unknown database',
        "has no such database",
        "create the database, or correct its name",
    ),
    ConnectionFault(
        "name or service not known|could not translate host name|failed to resolve host"
        "|nodename nor servname",
        "is on a host that is not found",
        "correct the name of the host, or repair the name service of this machine",
    ),
    ConnectionFault(
        "connection refused",
        "refuses the connection, because no server listens at that host and port",
        "start the database server, or correct host and port",
    ),
    ConnectionFault(
        "running locally and accepting",
        "has no server that listens at that socket",
        "start the database server, or correct the folder of its socket",
    ),
    ConnectionFault(
        "timeout expired|timed out|no route to host|network is unreachable",
        "cannot be reached over the network",
        "check the host, its firewall and the network",
    ),
    ConnectionFault(
        "starting up|in recovery mode",
        "has not finished starting",
        "wait until it accepts connections",
    ),
    ConnectionFault("shutting down", "is being stopped", "start it again"),
    ConnectionFault(
        "too many", "has no connection left", "end unused connections, or raise its limit"
    ),
    ConnectionFault(
        "certificate|does not support ssl|server does not support",
        "does not offer the TLS connection that the URL asks for",
        "correct its certificate, or `sslmode` and `sslrootcert` in the URL",
    ),
    ConnectionFault("file is not a database", "is not a database file", "name the right file"),
    ConnectionFault(
        "unable to open database file",
        "is a file that does not exist or may not be read",
        "name the right file, or change its permissions",
    ),
)
"""The known causes, the most exact first."""


def connection_fault(error: Exception) -> ConnectionFault | None:
    """Return why a database did not accept a connection; None if the driver's message is unknown.

    Args:
        error: What SQLAlchemy or the driver raised.

    Privacy:
        The message may quote the URL, the user or the host. The answer contains none of these.

    >>> connection_fault(OSError("Connection refused")).says
    'refuses the connection, because no server listens at that host and port'
    """
    text = str(getattr(error, "orig", None) or error).lower()
    return next((fault for fault in FAULTS if re.search(fault.told_by, text)), None)
