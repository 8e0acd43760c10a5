"""What the confidential process gives up at its start, where the system can take it.

Linux's Landlock limits where the process may write, and seccomp which system calls it may make. If
it needs the home alone, a mistake in a reader or a library can then neither write a row outside the
home, nor send it, nor start another program. Both hold for every thread and process that starts
later. Times and permissions of files, and signals, are not limited.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

Reach: TypeAlias = Literal["home", "network", "programs"]
"""What a process needs: only the home; the network too, for a database, an object store or a
cluster that runs; or other programs too, for a cluster that it starts. They would inherit the
limits, so `programs` sets none."""

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # flag of the first
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Write to files, and make and remove anything."""

_FILTER, _ALL_THREADS = 1, 1
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the second: the call fails with EPERM
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_IO_URING = 425  # its requests are not seen by the filter
_CALLS = {
    # Architecture's name: its identifier; seccomp; socket (pairs of connected sockets have a call
    # of their own); then what is refused always: execve, execveat; shmget, msgget, semget;
    # setxattr, lsetxattr, fsetxattr; add_key, request_key, keyctl; ptrace, process_vm_writev;
    # unshare.
    "x86_64": (
        *(0xC000003E, 317, 41),
        (59, 322, 29, 68, 64, 188, 189, 190, 248, 249, 250, 101, 311, 272),
    ),
    "aarch64": (
        *(0xC00000B7, 277, 198),
        (221, 281, 194, 186, 190, 5, 6, 7, 217, 218, 219, 117, 271, 97),
    ),
}
_FOREIGN = 0x40000000  # numbers of another interface of x86_64


def confine(reach: Reach, writable: Iterable[Path]) -> None:
    """Give up what a process does not need, as far as the system can take it.

    Args:
        reach: What the process must reach.
        writable: Folders to which it writes.
    """
    protect_memory()
    if reach != "programs":
        write_only_below(writable)
        refuse_programs(sockets=reach == "network")


def protect_memory() -> None:
    """Disable core files and new privileges; other processes may not read the memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        control = ctypes.CDLL(None).prctl
        control(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        control(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def write_only_below(folders: Iterable[Path]) -> bool:
    """Give up writing anywhere but in some folders; call it before threads are started.

    Args:
        folders: The folders; those that do not exist are left out.

    Returns:
        Whether the system can do so (Linux since 6.2).
    """
    if _call(_CREATE_RULESET, None, 0, _VERSION) < 3:
        return False
    changes = _CHANGES | _TRUNCATE | _REFER
    rules = _call(_CREATE_RULESET, struct.pack("<Q", changes), 8, 0)
    if rules < 0:
        return False
    for folder in folders:
        with contextlib.suppress(OSError):
            place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            allowed = changes if os.path.isdir(folder) else _WRITE_FILE | _TRUNCATE
            _call(_ADD_RULE, rules, 1, struct.pack("<Qi", allowed, place), 0)
            os.close(place)
    restricted = _call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return restricted


def refuse_programs(*, sockets: bool) -> bool:
    """Give up starting programs, and what others could read: memory, queues, keys, attributes.

    Args:
        sockets: Whether it may still open sockets, and use io_uring.

    Returns:
        Whether the system can do so.
    """
    if (known := _CALLS.get(platform.machine())) is None:
        return False
    architecture, seccomp, socket, refused = known
    calls = [*refused, *(() if sockets else (socket, _IO_URING))]
    # Each step: operation, how many steps a match and a miss skip, and what it compares with.
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, len(calls) + 3, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(calls) + 1, 0, _FOREIGN),
        *((_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    asked = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(program))
    return _call(seccomp, _FILTER, _ALL_THREADS, asked) == 0


def _call(number: int, *arguments: int | bytes | None) -> int:
    """Return what a system call returns; below 0 if there is none."""
    try:
        return int(ctypes.CDLL(None).syscall(ctypes.c_long(number), *map(_word, arguments)))
    except (OSError, AttributeError):
        return -1


def _word(value: int | bytes | None) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value
