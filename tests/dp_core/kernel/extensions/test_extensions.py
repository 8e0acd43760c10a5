"""Extensions: each is found by the name of its question, and the core loads none by itself."""

import subprocess
import sys

import pytest

from dp_core.kernel.drawn_question import DrawnQuestion
from dp_core.kernel.extensions import EXTENSIONS, SUMS, extension
from dp_core.kernel.questions import STATISTICS
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.vetted import VETTED, kind_of

PROGRAM = """
import sys
from dp_core.kernel import document, kernel, requests
from dp_core.kernel.ledger import rules
from dp_core.kernel.mechanisms import event_reading
from dp_core.kernel.questions import vetted
print(*[name for name in sys.modules if name.startswith("dp_core.kernel.extensions.")])
"""


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_is_found_by_its_name(name):
    kind = extension(name)
    assert name == kind.NAME
    assert issubclass(kind, Sum) == (name in SUMS)
    assert issubclass(kind, DrawnQuestion) == (name not in VETTED)
    if name in VETTED:
        assert kind_of(name) is kind


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_of_the_core_is_found_by_its_name(name):
    assert name == kind_of(name).NAME
    assert name not in EXTENSIONS


def test_the_core_loads_no_extension():
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == []
