"""Fixtures of the tests of the wall."""

import numpy as np
import pytest

from dp_core.kernel.noise import granted_noise


@pytest.fixture
def no_noise(monkeypatch):
    """Mechanisms that add nothing: what is left is the exact answer."""
    monkeypatch.setattr(granted_noise, "add", lambda values, _: values)
    monkeypatch.setattr(granted_noise, "choose", lambda values, _: int(np.argmax(values)))
