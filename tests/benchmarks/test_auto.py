"""The benchmark of `auto`: its generated files are what they say, and its table counts right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.auto_parts import downstream, results
from benchmarks.auto_parts.files import fingerprint
from benchmarks.auto_parts.generated import GENERATED
from benchmarks.auto_parts.made import method_of
from benchmarks.auto_parts.results import Result
from benchmarks.auto_parts.watching import watch
from dp_core.metrics.marginal_error import average_tvd
from dp_core.tables.dataset import Dataset

SHAPES = {
    "binary_16": (20_000, 16),
    "binary_32": (10_000, 32),
    "binary_60": (30_000, 60),
    "symptoms": (15_000, 24),
    "census": (50_000, 18),
    "census_5k": (5_000, 14),
    "small_500": (500, 8),
    "small_2000": (2_000, 8),
    "triples": (20_000, 15),
    "tiny": (1_000, 5),
    "nothing": (10_000, 12),
    "clusters": (20_000, 40),
    "large_columns": (30_000, 9),
    "chain": (20_000, 20),
}


@pytest.fixture(scope="module")
def files():
    return {name: make(0) for name, make in GENERATED.items()}


def shuffled(data):
    rng = np.random.default_rng(0)
    return Dataset(data.domain, np.stack([rng.permutation(column) for column in data.codes]))


def test_files_have_the_sizes_they_state(files):
    assert {name: (data.rows, len(data.domain)) for name, data in files.items()} == SHAPES
    for name, data in files.items():
        assert (data.codes.max(axis=1) < data.domain.sizes).all(), name
        assert (data.codes.max(axis=1) > data.codes.min(axis=1)).all(), name
    assert files["tiny"].domain.size() == 96
    assert sorted(files["large_columns"].domain.sizes)[-2:] == [500, 1000]
    assert files["symptoms"].codes.mean(axis=1).max() < 0.08


@pytest.mark.parametrize("name", ["binary_16", "census_5k", "triples", "small_500"])
def test_a_file_is_the_same_every_time_and_another_for_another_draw(files, name):
    assert fingerprint(GENERATED[name](0)) == fingerprint(files[name])
    assert fingerprint(GENERATED[name](1)) != fingerprint(files[name])


def test_the_census_has_its_structural_zeros_and_functions(files):
    census = files["census"]
    child = census.column("age") < 16
    for name in ("marital", "children", "work", "occupation", "hours", "income", "over"):
        assert not census.column(name)[child].any(), name
        assert census.column(name)[~child].any(), name
    husband = census.column("relationship") == 1
    assert husband.any()
    assert (census.column("sex")[husband] == 1).all()
    assert np.array_equal(census.column("over"), census.column("income") >= 20)
    for education in range(16):
        group = census.column("education_group")[census.column("education") == education]
        assert np.unique(group).size == 1


def test_dependence_is_where_it_is_said_to_be(files):
    # Of shuffled columns, against the file itself: what independence would cost.
    cost = {
        name: [average_tvd(files[name], shuffled(files[name]), ways).mean for ways in (2, 3)]
        for name in ("binary_16", "triples", "nothing")
    }
    again = Dataset(
        files["nothing"].domain,
        files["nothing"].codes[:, np.random.default_rng(1).integers(0, 10_000, 10_000)],
    )
    assert cost["nothing"][0] < 1.6 * average_tvd(files["nothing"], again, 2).mean
    assert cost["binary_16"][0] > 0.08
    triple = ("c1", "c2", "c3")
    axes = files["triples"].domain.axes(triple)
    part = Dataset(files["triples"].domain.project(triple), files["triples"].codes[list(axes)])
    assert average_tvd(part, shuffled(part), 2).mean < 0.01
    assert average_tvd(part, shuffled(part), 3).mean > 0.4


def test_a_method_s_options_are_read():
    method = method_of("privsyn@try+select.rule=greedy+shares.measure=1/2+reconstruct.shrink=false")
    assert method.preset == "privsyn"
    assert method.options["select"] == {"rule": "greedy"}
    assert method.options["reconstruct"] == {"shrink": False}
    assert float(method.options["shares"]["measure"]) == 0.5
    with pytest.raises(SystemExit, match="no preset nonsense"):
        method_of("nonsense")


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


def test_a_file_of_fewer_columns_is_read_and_added_to(tmp_path):
    path = tmp_path / "kept.csv"
    results.append(path, result("mst", 0, 0.5))
    path.write_text(
        "\n".join(line.rsplit(",", 2)[0] for line in path.read_text().splitlines()) + "\n"
    )
    results.append(path, result("mst", 1, 0.25))
    assert [one.tvd2 for one in results.read(path).values()] == [0.5, 0.25]


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
