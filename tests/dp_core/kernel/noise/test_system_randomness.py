"""Where the random bits of noise come from: every draw reads the operating system's generator."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from dp_core.kernel.extensions import cell_draws, column_draws
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.noise.exact_samplers import add_noise, noisy_max
from dp_core.kernel.noise.system_randomness import LARGEST_RANGE, below

SCALE = Fraction(7, 2)
NOTHING = np.zeros(100, dtype=np.int64)


def drawn_records(draw, *what):
    event = PerturbedDrawsEvent(Fraction(1), draws=20)
    return draw(*what, Grant(1, Step("measure", "x", Fraction(1), event, (20, 1))))


DRAWS = {
    "laplace": lambda: add_noise("laplace", NOTHING, SCALE),
    "gaussian": lambda: add_noise("gaussian", NOTHING, SCALE),
    "gumbel": lambda: [noisy_max(NOTHING, SCALE, gumbel=True) for _ in range(20)],
    "exponential": lambda: [noisy_max(NOTHING, SCALE, gumbel=False) for _ in range(20)],
}


@pytest.fixture
def replayed(monkeypatch):
    """Return a function that lets the system give the same bytes again from there on."""

    def begin():
        numbers = count()

        def urandom(size):
            return np.random.default_rng(next(numbers)).bytes(size)

        monkeypatch.setattr(os, "urandom", urandom)

    return begin


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_noise_is_made_of_the_systems_bytes_and_of_nothing_else(draw, replayed):
    """A generator of the process would have moved on between the two draws."""
    replayed()
    first = draw()
    replayed()
    assert np.array_equal(draw(), first)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_fork_and_its_parent_draw_different_noise(draw):
    """As do two machines that are restored from one snapshot.

    Equal by chance with probability below 1e-30: a hundred values, or twenty choices among a
    hundred, of which each is the likeliest with probability below .15.
    """
    draw()  # whatever a generator would keep is in memory now
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, np.asarray(draw(), dtype=np.int64).tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=np.int64)
    os.waitpid(child, 0)
    ours = np.asarray(draw(), dtype=np.int64)
    assert theirs.shape == ours.shape
    assert not np.array_equal(theirs, ours)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_each_draw_makes_a_system_call():
    script = """
import sys
import numpy as np
from fractions import Fraction
from dp_core.kernel.noise.exact_samplers import add_noise
values = np.zeros(10, dtype=np.int64)
sys.stderr.write("begin\\n")
for _ in range(50):
    add_noise("gaussian", values, Fraction(3))
sys.stderr.write("end\\n")
"""
    traced = subprocess.run(
        ["strace", "-e", "trace=getrandom,write", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    if "PTRACE" in traced.stderr or "ptrace" in traced.stderr:
        pytest.skip("the system does not allow strace")
    assert traced.returncode == 0, traced.stderr
    between = traced.stderr.partition('"begin')[2].partition('"end')[0]
    assert between.count("getrandom(") >= 50


@pytest.mark.parametrize("draw", [cell_draws.draw, column_draws.draw])
def test_records_are_drawn_from_the_systems_bytes(draw, monkeypatch):
    """`secrets` reads `os.urandom` and keeps nothing."""
    read = []
    system = os.urandom
    monkeypatch.setattr("random._urandom", lambda size: read.append(size) or system(size))
    if draw is cell_draws.draw:
        drawn_records(draw, np.array([[0], [1]]), np.array([3, 4]), (5,))
    else:
        drawn_records(draw, [np.array([3, 4, 0])], [()], 1)
    assert len(read) >= 20


# -- whole numbers below an end


@pytest.mark.parametrize("end", [1, 2, 3, 1 << 62, 3 << 61, LARGEST_RANGE])
def test_each_number_below_an_end_is_as_likely_as_any_other(end, monkeypatch):
    """Of all 64-bit words: each remainder comes from equally many that are not drawn again."""
    kept = (1 << 64) - (1 << 64) % end
    # The words around the last that is kept, then one for those that were refused.
    asked = [0, 1, end - 1, end, kept - 1, *([kept] if kept < 1 << 64 else [])]
    served = iter([np.array(asked, dtype=np.uint64), np.array([7], dtype=np.uint64)])
    monkeypatch.setattr(
        "dp_core.kernel.noise.system_randomness.words", lambda _number: next(served)
    )
    found = below(end, len(asked)).tolist()
    assert found == [(7 if word >= kept else word) % end for word in asked]
    assert kept % end == 0


@pytest.mark.parametrize("end", [0, -1, LARGEST_RANGE + 1])
def test_an_end_out_of_range_is_refused(end):
    with pytest.raises(ValueError, match="draw among"):
        below(end, 1)
