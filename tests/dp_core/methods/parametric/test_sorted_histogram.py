"""Histograms whose order by size is public."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.parametric.sorted_histogram import SortedHistogram
from dp_core.schema.variables import Variable, Variables
from tests.memory_measurement import EXACT, model_in_memory

TOWN = Variable(name="town", size=40)
HOSTS = Variable(name="hosts", size=501, positions=500, high=500.0, missing=True)
COLUMNS = Variables((TOWN, HOSTS))
BOTH = {"falling": ("hosts", "town")}


def file_of():
    """Return records whose counts fall from each town, and from each number, to the next."""
    towns = np.repeat(np.arange(40), np.linspace(200, 5, 40).astype(int))
    hosts = np.repeat(np.arange(500), np.sort(np.floor(900 / np.arange(1, 501)).astype(int))[::-1])
    rows = min(towns.size, hosts.size)
    towns, hosts = towns[:rows], np.append(hosts[: rows - 90], np.full(90, 500))
    return Dataset(COLUMNS.domain, np.stack([towns, hosts]).astype(np.uint16))


def model_of(method, epsilon=EXACT, **more):
    data = file_of()
    return model_in_memory(method, COLUMNS, data, epsilon, rows=data.rows, **more)


def counts_of(data=None):
    codes = (data or file_of()).codes
    return [np.bincount(codes[0], minlength=40), np.bincount(codes[1], minlength=501)]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_without_noise_sorted_counts_are_those_of_the_file(neighbours):
    model, _ = model_of(SortedHistogram(**BOTH), neighbours=neighbours)
    for found, exact in zip([each.values for each in model.cells], counts_of(), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-6)


def test_noisy_counts_are_in_the_stated_order():
    model, session = model_of(SortedHistogram(**BOTH), 1)
    assert (np.diff(model.cells[0].values) <= 1e-9).all()
    assert (np.diff(model.cells[1].values[:-1]) <= 1e-9).all()
    assert session.spent() == 1
    rising, _ = model_of(SortedHistogram(rising=("hosts",)), 1)
    assert (np.diff(rising.cells[1].values[:-1]) >= -1e-9).all()


def test_the_order_of_many_equal_counts_takes_away_most_of_their_noise():
    """The mean squared errors of 20 runs; their ratio is 5, with a standard deviation of .3."""
    exact = counts_of()[1]
    errors = {}
    for name, options in (("sorted", BOTH), ("plain", {})):
        models = [model_of(SortedHistogram(**options), 1)[0] for _ in range(20)]
        errors[name] = np.mean([((each.cells[1].values - exact) ** 2).mean() for each in models])
    assert errors["sorted"] < errors["plain"] / 2


def test_the_counts_in_order_are_the_nearest_ones():
    rng = np.random.default_rng(3)
    method = SortedHistogram(rising=("x",))
    variable = Variable(name="x", size=6)
    noisy = rng.normal(np.arange(6), 3)
    found = method.in_order(variable, noisy)
    assert (np.diff(found) >= 0).all()
    least = ((found - noisy) ** 2).sum()
    for _ in range(2000):
        other = np.sort(found + rng.normal(0, 0.5, 6))
        assert ((other - noisy) ** 2).sum() >= least - 1e-9


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="both name the column 'town'"):
        SortedHistogram(falling=("town",), rising=("town",))
    with pytest.raises(BadInput, match=r"falling names the column 'tonw', .*town"):
        SortedHistogram(falling=("tonw",)).check(COLUMNS, "add-remove")
