"""Posterior sets beside NAPSU-MQ (Räisä et al. 2023), as its authors' package twinify makes it.

    python benchmarks/napsu_mq.py --peer-python VENV/bin/python [--rows 3000] [--epsilon 1]
        [--sets 5 20] [--repeats 40] [--minutes 30]

Files are drawn from a log-linear model of four columns of two levels with pairs only, so that the
assumption of either method is true. Both get the same files, epsilon and delta (1e-5), one record
replaced by another, the number of records public, and the same six tables to measure; ours also
measures the four columns, at a tenth of the budget. Each has its own accounting. Quantities: 4
shares, 6 shares of pairs, and the 3 coefficients of a logistic regression.

The sets of twinify are combined by twinify's own rule (`non_negative_conf_int`), ours by ours. It
prints, for each number of sets, the part of the 95 % intervals that contain the population's value,
with its standard error over the files, the median width relative to the interval of the file
itself, the median ratio of our width to theirs, and the CPU seconds of a file.

Twinify 2.0.0 needs old packages, so it runs in a Python of its own (3.10):

    python3.10 -m venv VENV
    VENV/bin/pip install numpy==1.23.5 scipy==1.10.1 pandas==1.5.3 jax==0.4.13 jaxlib==0.4.13
    VENV/bin/pip install numpyro==0.11.0 arviz==0.14.0 xarray==2022.12.0 networkx==2.8.8
    VENV/bin/pip install disjoint-set==0.7.4 graphviz==0.20.1 tqdm==4.64.1
    VENV/bin/pip install fourier-accountant==0.12.11 'jax-chacha-prng<2'
    VENV/bin/pip install --no-deps d3p==0.2.0 twinify==2.0.0
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from numpy.typing import NDArray

from benchmarks.interval_parts.twinify_worker import COLUMNS, PAIRS, QUANTITIES, estimates
from benchmarks.trial import trial_plan
from dp_core.client.released import Measurement
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combine import combine
from dp_core.inference.combining_rules import rule_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import carry_out, sample

Floats = NDArray[np.float64]
DELTA = Fraction(1, 10**5)
# Without them XLA compiles for minutes at each file; the results are the same.
XLA = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
MAIN = (-0.4, -0.8, 0.2, -1.0)
TOGETHER = (0.5, -0.3, 0.8, 0.4, 0.5, -0.4)
"""Parameters of the log-linear model, in the order of `COLUMNS` and `PAIRS`."""


def population() -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return the shares of the 16 cells, their codes, and the true quantities."""
    cells = np.array(list(itertools.product((0, 1), repeat=len(COLUMNS))))
    pairs = list(itertools.combinations(range(len(COLUMNS)), 2))
    score = cells @ np.array(MAIN)
    for strength, (one, other) in zip(TOGETHER, pairs, strict=True):
        score = score + strength * cells[:, one] * cells[:, other]
    shares = np.exp(score) / np.exp(score).sum()
    truth = [*(shares @ cells)]
    truth += [float(shares @ (cells[:, one] * cells[:, other])) for one, other in pairs]
    truth += [s for s, pair in zip(TOGETHER, PAIRS, strict=True) if pair[1] == COLUMNS[-1]]
    return shares, cells, np.array(truth)


def ours(
    codes: NDArray[np.uint16], epsilon: Fraction, sets: int, seed: int
) -> tuple[Floats, float]:
    """Return the intervals from posterior sets, shape (quantities, 2), and the noise of a pair."""
    domain = Domain(COLUMNS, (2,) * len(COLUMNS))
    plan = trial_plan(
        domain,
        "fixed",
        epsilon,
        DELTA,
        neighbours="replace-one",
        select={"method": "fixed", "cliques": PAIRS, "allocation": "equal"},
        reconstruct={"method": "gum"},
        sets=sets,
        mode="posterior",
        seed=seed,
    )
    schema = dataclasses.replace(plan.spec.schema, rows_about=len(codes))
    plan = make_plan(dataclasses.replace(plan.spec, schema=schema))
    made = carry_out(plan, MemoryCounter(Dataset(domain, np.ascontiguousarray(codes.T))))
    noise = [
        item.variance**0.5
        for item in made.released
        if isinstance(item, Measurement) and len(item.clique) == 2
    ]
    each = [estimates(sample(plan, made.models, one + 1).codes.T) for one in range(sets)]
    values, variances = (np.array(part) for part in zip(*each, strict=True))
    rule = rule_of("posterior", sets)
    found = [
        combine(values[:, place], variances[:, place], rule).interval(0.95)
        for place in range(len(QUANTITIES))
    ]
    return np.array(found, dtype=np.float64), float(max(noise))


def theirs(files: NDArray[np.uint16], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what the peer printed about each file until its time was over."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "files.npz"
        np.savez(place, files=files)
        worker = Path(__file__).parent / "interval_parts" / "twinify_worker.py"
        command = [options.peer_python, str(worker), str(place), str(float(options.epsilon))]
        command += [str(float(DELTA)), *map(str, options.sets)]
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        environment["XLA_FLAGS"] = XLA
        ends = time.monotonic() + 60 * options.minutes
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
        ) as peer:
            assert peer.stdout is not None
            for line in peer.stdout:
                if line.startswith("{"):
                    answers.append(json.loads(line))
                if time.monotonic() > ends:
                    break
            peer.kill()
    return answers


def missing(python: str) -> str:
    """Return why the peer cannot run, or an empty text."""
    if not python:
        return "no --peer-python was given"
    try:
        tried = subprocess.run(
            [python, "-c", "import twinify.napsu_mq.napsu_mq"], capture_output=True, text=True
        )
    except OSError as error:
        return f"{python} cannot be run: {error.strerror}"
    return tried.stderr.strip().split("\n")[-1] if tried.returncode else ""


def report(name: str, intervals: Floats, truth: Floats, own: Floats) -> None:
    """Print the coverage and the width of one method.

    Args:
        name: The method and the number of sets.
        intervals: Shape (files, quantities, 2).
        truth: True quantities.
        own: Widths of the intervals of the files themselves, shape (files, quantities).
    """
    for kind, chosen in (
        ("shares", np.arange(len(QUANTITIES)) < len(COLUMNS) + len(PAIRS)),
        ("coefficients", np.arange(len(QUANTITIES)) >= len(COLUMNS) + len(PAIRS)),
    ):
        some = intervals[:, chosen]
        hits = (some[..., 0] <= truth[chosen]) & (truth[chosen] <= some[..., 1])
        error = hits.mean(axis=1).std(ddof=1) / len(hits) ** 0.5
        width = np.nanmedian((some[..., 1] - some[..., 0]) / own[:, chosen])
        none = int(np.isnan(some[..., 0]).sum())
        print(f"| {name} | {kind} | {hits.mean():.3f} | {error:.3f} | {width:.2f} | {none} |")


def main() -> None:
    """Read the command line, run both and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer-python", default="", help="a Python with twinify 2.0.0")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1))
    parser.add_argument("--sets", nargs="+", type=int, default=[5, 20])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=30, help="of the peer, by the clock")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if reason := missing(options.peer_python):
        sys.exit(
            f"The peer twinify is missing ({reason}). The first lines of this file say how to"
            " install it; then give its Python as --peer-python."
        )
    shares, cells, truth = population()
    rng = np.random.default_rng(options.seed)
    files = cells[rng.choice(len(cells), (options.repeats, options.rows), p=shares)]
    files = files.astype(np.uint16)
    head, *answers = theirs(files, options)
    failed = [each for each in answers if "failed" in each]
    done = [each for each in answers if "intervals" in each]
    numbers = [each["number"] for each in done]
    analysed = [estimates(files[number]) for number in numbers]
    own = np.array([3.92 * variances**0.5 for _, variances in analysed])
    file = np.stack([np.stack([v - 1.96 * s**0.5, v + 1.96 * s**0.5], -1) for v, s in analysed])
    print(f"{len(done)} files of {options.rows:,} rows, epsilon {options.epsilon}, delta 1e-5")
    print(f"twinify failed for {len(failed)} files {[each['failed'] for each in failed[:2]]}")
    print("\n| intervals of | quantities | covered | se | width | without interval |")
    print("|---|---|---|---|---|---|")
    report("the file itself", file, truth, own)
    for sets in options.sets:
        peer = np.array([each["intervals"][str(sets)] for each in done])
        begun = time.process_time()
        made = [ours(files[number], options.epsilon, sets, number) for number in numbers]
        seconds = (time.process_time() - begun) / len(numbers)
        mine = np.stack([intervals for intervals, _ in made])
        report(f"NAPSU-MQ (twinify), {sets} sets", peer, truth, own)
        report(f"posterior, {sets} sets", mine, truth, own)
        ratio = np.diff(mine)[..., 0] / np.diff(peer)[..., 0]
        shares_width, logit_width = (
            np.nanmedian(part) for part in np.split(ratio, [len(COLUMNS) + len(PAIRS)], axis=1)
        )
        their_seconds = np.median([each["seconds"] for each in done])
        print(
            f"\n{sets} sets: our width by theirs, median: shares {shares_width:.2f}, coefficients"
            f" {logit_width:.2f}; CPU seconds of a file: ours {seconds:.2f}, theirs"
            f" {their_seconds:.1f} (fitted once for all numbers of sets); standard deviation of the"
            f" noise of a pair's cell: ours {made[0][1]:.1f}, theirs {head['noise']:.1f}\n"
        )


if __name__ == "__main__":
    main()
