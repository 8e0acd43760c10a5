"""The confidential process's side in the process of a test, which can patch it."""

import contextlib
import json
import re

import pytest

from dp_core.kernel.canonical import canonical_json
from tasks.confidential.host import Host
from tasks.confidential.messages import NOTICES, REPLIES, checked
from tasks.support.run_folder import kept_message


class InThisProcess:
    """A connection to a host in this process; messages cross as JSON, as they do over a socket."""

    def __init__(self):
        self._notice = None
        self._host = Host(self._tell)

    def exchange(self, message, blocks, notice):
        self._notice = notice
        reply, found = self._host.answer(_crossed(message), blocks)
        checked(reply, REPLIES)
        return _crossed(reply), found

    def close(self):
        self._host.close()

    def _tell(self, notice):
        checked(notice, NOTICES)
        self._notice(_crossed(notice))


def _crossed(message):
    return json.loads(canonical_json(dict(message)))


def confidential_run(run):
    """Return the run of the confidential side, which a release of a test has in this process."""
    return run.confidential._connection._host._opened


def own_words(error):
    """Return the sentence of an error: of the process, which keeps it inside, or of this one."""
    return error.message if error.message_file is None else kept_message(error.message_file)


@contextlib.contextmanager
def raises_inside(kind, match):
    """The block ends with an error of the process, whose own words do not cross."""
    with pytest.raises(kind) as stopped:
        yield stopped
    assert stopped.value.message_file is not None, stopped.value.message
    assert re.search(match, own_words(stopped.value))
    assert not re.search(match, stopped.value.message)
