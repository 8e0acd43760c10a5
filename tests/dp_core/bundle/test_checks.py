from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dp_core.bundle.checks import check_fit, needed_counts, tally_sets, utility, write_utility
from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.errors import StageFailed
from dp_core.marginals import Marginal, Measurement
from dp_core.metrics.marginal_error import Tally, average_tvd

DOMAIN = Domain(("a", "b", "c"), (10, 8, 3))


def dataset(rows: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    codes = [rng.binomial(size - 1, 0.4, rows) for size in DOMAIN.sizes]
    return Dataset(DOMAIN, np.stack(codes).astype(np.uint16))


def measure(data: Dataset, clique: Clique, scale: float, replicate: int = 0) -> Measurement:
    exact = Tally(DOMAIN, [clique]).add(data).count(clique)
    noise = np.random.default_rng(replicate + 77).normal(0, scale, exact.shape)
    return Measurement(
        domain=DOMAIN.project(clique),
        values=exact + np.rint(noise).astype(np.int64),
        noise="gaussian",
        scale=scale,
        stage="measure",
        replicate=replicate,
        grant=1,
    )


class ExactCounter:
    def __init__(self, data: Dataset) -> None:
        self.data = data

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        tally = Tally(DOMAIN, cliques).add(self.data)
        return {clique: Marginal(DOMAIN.project(clique), tally.count(clique)) for clique in cliques}


def counters():
    return ExactCounter(dataset(100, 1)), [ExactCounter(dataset(100, 2))]


def fits(measurements, sets, records):
    return check_fit(measurements, tally_sets(DOMAIN, measurements, sets), records=records)


def test_a_set_drawn_from_the_truth_is_as_far_as_noise_and_drawing_explain():
    truth = dataset(200_000, 1)
    tables = [measure(truth, clique, 300.0) for clique in [("a", "b"), ("a", "c")]]
    sets = [[dataset(20_000, seed)] for seed in range(2, 8)]
    for fit in fits(tables, sets, 200_000):
        assert fit.ratio == pytest.approx(1, abs=0.15)
        assert fit.outside_share < 0.12


def test_a_model_that_is_wrong_shows():
    truth = dataset(20_000, 1)
    wrong = Dataset(DOMAIN, np.zeros_like(truth.codes))
    (fit,) = fits([measure(truth, ("a", "b"), 20.0)], [[wrong]], 20_000)

    assert fit.ratio > 5
    assert fit.outside_share > 0.3


def test_noise_alone_has_the_expected_distance_that_is_stated():
    truth = dataset(5_000, 1)
    (fit,) = fits([measure(truth, ("a", "b"), 40.0)], [[truth]], 5_000)

    assert fit.noise_tvd == pytest.approx(80 * 40 * math.sqrt(2 / math.pi) / 10_000, rel=1e-3)
    assert fit.set_tvd == pytest.approx((fit.noise_tvd,), rel=0.3)
    assert fit.half_width == 78


def test_each_replicate_is_compared_with_its_own_set():
    one, two = dataset(5_000, 1), dataset(3_000, 2)
    tables = [measure(one, ("a",), 1e-9 + 1, 1), measure(two, ("a",), 1e-9 + 1, 2)]
    first, second = fits(tables, [[one], [two]], 5_000)

    assert len(first.set_tvd) == len(second.set_tvd) == 1
    assert first.set_tvd[0] < 0.01
    shared = fits([measure(one, ("a",), 1.0)], [[one], [two]], 5_000)
    assert len(shared[0].set_tvd) == 2


def test_sets_of_another_size_are_judged_by_their_shape():
    truth = dataset(5_000, 1)
    double = Dataset(DOMAIN, np.concatenate([truth.codes, truth.codes], axis=1))
    tables = [measure(truth, ("a", "b"), 30.0)]
    (small,), (large,) = fits(tables, [[truth]], 5_000), fits(tables, [[double]], 5_000)

    assert large.set_tvd == pytest.approx(small.set_tvd)


def test_the_number_of_rows_is_not_a_table():
    truth = dataset(100, 1)

    assert fits([measure(truth, (), 5.0)], [[truth]], 100) == ()


def test_an_empty_set_and_no_records_do_not_crash():
    truth = dataset(100, 1)
    (fit,) = fits([measure(truth, ("a",), 5.0)], [[dataset(0, 1)]], 0.0)

    assert math.isfinite(fit.set_tvd[0])


def test_what_a_report_needs_is_every_column_and_every_table():
    table = measure(dataset(10, 1), ("a", "b"), 5.0)

    assert needed_counts(DOMAIN, [table, table]) == (("a",), ("b",), ("c",), ("a", "b"))


def test_utility_is_the_average_distance_to_the_confidential_file():
    truth, sets = dataset(1_000, 1), [dataset(900, 2), dataset(800, 3)]
    found = utility(ExactCounter(truth), [ExactCounter(data) for data in sets], DOMAIN)

    for errors, data in zip(found.sets, sets, strict=True):
        assert errors == tuple(average_tvd(truth, data, ways) for ways in (1, 2, 3))
    assert found.means()[2] == pytest.approx(
        np.mean([average_tvd(truth, data, 2).mean for data in sets])
    )


def test_a_file_of_one_column_has_one_way_tables_only():
    domain = Domain(("a",), (3,))

    class One:
        def count(self, cliques):
            return {c: Marginal(domain, np.array([5, 0, 0])) for c in cliques}

    assert utility(One(), [One()], domain).means() == {1: 0.0}


def test_confidential_figures_say_so_first_and_are_the_owner_s_only(tmp_path):
    found = utility(*counters(), DOMAIN, cell_limit=50)
    write_utility(tmp_path / "internal", found, title="<b>A & B</b>")

    assert stat.S_IMODE((tmp_path / "internal").stat().st_mode) == 0o700
    for name in ("utility.json", "utility.html"):
        path = tmp_path / "internal" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        first = path.read_text().split("\n")[1 if name.endswith("json") else 0]
        assert "CONFIDENTIAL" in first
    values = json.loads((tmp_path / "internal" / "utility.json").read_text())
    assert values["sets"][0]["2-way"]["skipped_because_too_large"] == 1
    page = (tmp_path / "internal" / "utility.html").read_text()
    assert "<b>A" not in page


def test_an_internal_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "internal").write_text("a file")
    found = utility(*counters(), DOMAIN)
    with pytest.raises(StageFailed, match="could not be written"):
        write_utility(tmp_path / "internal", found, title="t")


def test_sets_with_the_noise_once_more_are_expected_farther_from_the_tables():
    rng = np.random.default_rng(1)
    exact = rng.integers(200, 900, 40)
    noisy = exact + np.rint(rng.normal(0, 20, 40)).astype(int)
    again = noisy + np.rint(rng.normal(0, 20, 40)).astype(int)
    domain = Domain(("a",), (40,))
    table = Measurement(domain, noisy, "gaussian", 20.0, "measure", 0, 1)
    codes = np.repeat(np.arange(40), again).astype(np.uint16)
    tally = Tally(domain, [("a",)]).add(Dataset(domain, codes[None]))
    (once,) = check_fit([table], [tally], records=float(noisy.sum()))
    (twice,) = check_fit([table], [tally], records=float(noisy.sum()), redrawn=True)
    assert twice.set_tvd == once.set_tvd
    assert twice.expected_tvd[0] > 1.15 * once.expected_tvd[0]
    assert twice.outside[0] <= once.outside[0]
