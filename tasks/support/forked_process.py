"""Forks of this process that never return to its code, and share the imports that it has.

A fork keeps no open file of this process but those that it is given. Its memory has what this
process knew by then.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection

_PR_SET_PDEATHSIG = 1  # Linux only
_STDERR = 2
_FEW_COLLECTIONS = 20_000  # imported modules are not garbage


def can_fork() -> bool:
    """Return whether this process can be forked safely: on Linux, without other Python threads."""
    return sys.platform == "linux" and threading.active_count() == 1


def end_with_parent() -> None:
    """Ask the system to end this process when its parent ends, even if the parent is killed.

    Otherwise the process of a killed release keeps running and holds that release's output open.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def fork(work: Callable[[], None], *, kept: Collection[int], errors: int) -> int:
    """Return the number of a new process that does some work and ends.

    It has a session of its own, so Ctrl-C does not reach it, and ends when this process ends.

    Args:
        work: What it does; nothing of this process's program runs there after it.
        kept: Descriptors that it keeps open; all others are replaced by the null device.
        errors: Descriptor of the file to which it writes its errors.
    """
    parent = os.getpid()
    with warnings.catch_warnings():
        # NumPy's threads are asleep; what needs them starts its own.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        end_with_parent()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(errors, _STDERR)
        _let_go({*kept})
        # No object of the parent is collected here: to close its database connection would disturb
        # the parent's.
        gc.freeze()
        gc.set_threshold(_FEW_COLLECTIONS)
        if os.getppid() == parent:
            work()
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _let_go(kept: set[int]) -> None:
    """Give up the parent's open files, with their locks, and its standard input and output.

    Standard error is the file of the errors and stays. The others are replaced by the null device,
    not closed. A closed number would be given to a new file, into which an object of the parent
    might then write.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number not in kept and number not in (null, _STDERR):
            with contextlib.suppress(OSError):
                os.fstat(number)  # the folder that was listed is closed again
                os.dup2(null, number, inheritable=False)
