"""The benchmark of `auto`: its generated files are what they say, and its table counts right."""

import math

import numpy as np
import pytest

from benchmarks.auto_parts import downstream, results
from benchmarks.auto_parts.files import fingerprint
from benchmarks.auto_parts.generated import GENERATED
from benchmarks.auto_parts.results import Result
from benchmarks.auto_parts.watching import watch


@pytest.fixture(scope="module")
def files():
    return {name: make(0) for name, make in GENERATED.items()}


@pytest.mark.parametrize("name", ["binary_16", "census_5k", "triples", "small_500"])
def test_a_file_is_the_same_every_time_and_another_for_another_draw(files, name):
    assert fingerprint(GENERATED[name](0)) == fingerprint(files[name])
    assert fingerprint(GENERATED[name](1)) != fingerprint(files[name])


def result(method, run, tvd, file="a", status="ok"):
    return Result(
        file=file,
        data="0",
        method=method,
        epsilon="1",
        run=run,
        status=status,
        tvd2=tvd,
        tvd3=2 * tvd,
        wall=1.0,
        cpu=1.0,
        megabytes=1.0,
        commit="c",
    )


def test_results_are_kept_and_the_later_of_two_counts(tmp_path):
    path = tmp_path / "kept.csv"
    for one in (result("mst", 0, 0.5), result("mst", 1, math.nan, status="failed")):
        results.append(path, one)
    results.append(path, result("mst", 0, 0.25))
    found = results.read(path)
    assert next(one.tvd2 for one in found.values()) == 0.25
    assert [one.status for one in found.values()] == ["ok", "failed"]


def test_rows_that_are_tested_on_are_not_given_to_methods(files):
    data = files["census_5k"]
    given, held = downstream.split(data)
    assert (given.rows, held.rows) == (4_000, 1_000)
    both = np.concatenate([given.codes, held.codes], axis=1)
    assert np.array_equal(np.sort(both[0]), np.sort(data.codes[0]))
    assert np.array_equal(given.codes, downstream.split(data)[0].codes)


def test_the_mean_is_of_log_ratios_to_the_best_of_three():
    found = [result("independent", run, 0.4 + run / 1000) for run in range(2)]
    found += [result("mst", run, 0.2 + run / 1000) for run in range(2)]
    found += [result("auto", run, 0.1 + run / 1000) for run in range(2)]
    found += [result("mst", run, 0.3, "b") for run in range(2)]
    found += [result("auto", run, 0.3, "b") for run in range(2)]
    line = next(
        line for line in results.against_best(found, ["auto"]).splitlines() if "tvd2" in line
    )
    mean = math.log(0.1005 / 0.2005) / 2
    error = math.hypot(0.0005 / 0.1005, 0.0005 / 0.2005) / 2
    assert f"| auto | 2 | {mean:+.3f} ({error:.3f}) | {mean:+.3f} | b +0.00 |" in line


def test_a_run_beyond_its_limit_is_ended(tmp_path):
    took = watch(["sleep", "60"], tmp_path / "log", seconds=0.05, megabytes=1000)
    assert took.status == "not finished"
    took = watch(["false"], tmp_path / "log", seconds=60, megabytes=1000)
    assert took.status == "failed"
    took = watch(
        lambda: (tmp_path / "made").write_text("x"), tmp_path / "log", seconds=60, megabytes=9e9
    )
    assert took.status == "ok"
    assert (tmp_path / "made").exists()
