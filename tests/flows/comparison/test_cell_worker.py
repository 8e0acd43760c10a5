import numpy as np

from flows.comparison.cell_worker import Meter

MB = 2**20


def test_processor_time_is_that_of_the_work():
    idle = Meter().usage()
    meter = Meter()
    while meter.usage().cpu_seconds < 0.05:
        pass
    assert idle.cpu_seconds < 0.05 <= meter.usage().cpu_seconds


def test_the_peak_is_seen_after_the_memory_is_given_back():
    before = Meter().usage().peak_bytes
    meter = Meter()
    block = np.ones(100 * MB, dtype=np.uint8)
    del block
    assert meter.usage().peak_bytes >= before + 90 * MB


def test_an_earlier_peak_is_forgotten():
    block = np.ones(100 * MB, dtype=np.uint8)
    high = Meter().usage().peak_bytes
    del block
    assert Meter().usage().peak_bytes <= high - 90 * MB
