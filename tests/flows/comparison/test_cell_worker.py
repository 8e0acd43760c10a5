import numpy as np

from flows.comparison.cell_worker import Meter

MB = 2**20


def test_processor_time_is_that_of_the_work():
    idle = Meter().usage()
    meter = Meter()
    while meter.usage()["cpu"] < 0.05:
        pass
    assert idle["cpu"] < 0.05 <= meter.usage()["cpu"]


def test_the_peak_is_seen_after_the_memory_is_given_back():
    before = Meter().usage()["memory"]
    meter = Meter()
    block = np.ones(100 * MB, dtype=np.uint8)
    del block
    assert meter.usage()["memory"] >= before + 94


def test_an_earlier_peak_is_forgotten():
    block = np.ones(100 * MB, dtype=np.uint8)
    high = Meter().usage()["memory"]
    del block
    assert Meter().usage()["memory"] <= high - 94
