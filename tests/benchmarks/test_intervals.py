"""The benchmarks of intervals: their populations, truths and bounds."""

from __future__ import annotations

import numpy as np

from benchmarks.interval_parts.populations import GENERATED
from benchmarks.interval_parts.twinify_worker import QUANTITIES, estimates
from benchmarks.interval_warnings import FORMULAS, Tallies
from benchmarks.napsu_mq import missing, population
from dp_core.inference.formulas.formula import read_formula


def test_the_true_quantities_are_those_of_a_file_with_the_populations_shares():
    shares, cells, truth = population()
    values, variances = estimates(np.repeat(cells, np.rint(1e6 * shares).astype(int), axis=0))
    assert len(truth) == len(QUANTITIES)
    np.testing.assert_allclose(values, truth, atol=2e-5)
    assert (variances > 0).all()


def test_without_the_peer_the_reason_is_told(tmp_path):
    assert "--peer-python" in missing("")
    assert "cannot be run" in missing(str(tmp_path / "python"))


def test_a_warning_that_knows_the_rate_of_a_coefficient_uses_the_other_half_of_the_repeats():
    tallies = Tallies()
    for repeat in range(4):
        tallies.name("file", "always", repeat, covered=True)
        tallies.name("file", "odd", repeat, covered=repeat % 2 == 1)
    tallies.judge_known_rates()
    # Even repeats of the second see only covered ones, so they are not warned of, and miss.
    assert tallies.each["file", "known rate"].seen == {
        (True, False): 4,
        (False, False): 2,
        (True, True): 2,
    }


def test_the_formulas_are_about_the_columns_of_their_population():
    for name, draw in GENERATED.items():
        frame = draw()
        for text in FORMULAS[name]:
            assert set(read_formula(text, tuple(frame.columns)).columns) <= set(frame.columns)
