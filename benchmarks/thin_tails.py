"""Do intervals of noise-aware sets cover what the file says where most cells hold little?

Usage: python benchmarks/thin_tails.py [--reconstruct gum pgm] [--sigma 22] [--sets 20]
       [--repeats 50] [--moments both]

The file is the survey that ships, with the columns and bins of the tutorial: 13,583 records, pairs
of up to 21 bins. All 15 pairs get noise of `--sigma` records (of about that size is the noise of
the tutorial's release at epsilon 1), sets are drawn and analysed, and combined by the noise-aware
rule. It prints for each question how far the combined estimate is from that of the file itself on
the average, in standard errors of the noise, and how often 95 % intervals cover it: `kept` with the
moments of the noisy tables (what a release does), `cut` without, as before there were any.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, tables_of
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.source import open_source
from dp_core.inference.combine import combine
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.methods import registry
from dp_core.methods.replicates.kept_moments import keep_moments, points_of
from dp_core.methods.replicates.noise_aware import redraw, unshrunk
from dp_core.methods.replicates.record_moments import ModelWithMoments
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import load_schema
from dp_core.schema.structure.structural_zeros import StructuralZeros

ROOT = Path(__file__).resolve().parents[1]
ZEROS = StructuralZeros()
Floats = NDArray[np.float64]
Found = tuple[float, float]


def survey() -> tuple[Schema, Dataset]:
    """Return the survey that ships, by the tutorial's schema."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    text = re.findall(r"```yaml\n(# survey.schema.yaml.*?)```", page, re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "survey.schema.yaml"
        path.write_text(text, encoding="utf-8")
        schema = load_schema(path)
    file = str(ROOT / "flows" / "demo" / "yrbss.csv.gz")
    source = open_source(file, ROOT, schema.domain.columns, schema.ignore)
    encoders = [Encoder(column) for column in schema.columns]
    pieces = [
        np.stack(
            [
                encoder.encode(values).codes
                for encoder, values in zip(encoders, batch.records.columns, strict=True)
            ]
        )
        for batch in source.batches()
    ]
    return schema, Dataset(schema.domain, np.concatenate(pieces, axis=1).astype(np.uint16))


def count(data: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Return a table of counts."""
    sizes = data.domain.project(clique).sizes
    flat = np.ravel_multi_index([data.column(name) for name in clique], sizes)
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes)


class Questions:
    """What an analyst asks: each a number and its variance as of a sample."""

    def __init__(self, schema: Schema) -> None:
        points = points_of(schema)
        self._numbers = {name: each.numbers for name, each in points.items()}
        self._missing = {column.name: column.missing_code for column in schema.columns}
        self.all: dict[str, Callable[[Dataset], Found]] = {
            "mean of height": lambda data: self._mean(data, "height"),
            "mean of days active": lambda data: self._mean(data, "physically_active_7d"),
            "height ~ gender": lambda data: self._linear(data, "height", "gender"),
            "height ~ age": lambda data: self._linear(data, "height", "age"),
            "age ~ grade": lambda data: self._linear(data, "age", "grade"),
            "days active ~ age": lambda data: self._linear(data, "physically_active_7d", "age"),
            "height ~ sleep": lambda data: self._linear(data, "height", "school_night_hours_sleep"),
            "female ~ height (logistic)": lambda data: self._logistic(data, "gender", "height"),
        }

    def _known(self, data: Dataset, *names: str) -> list[NDArray[np.uint16]]:
        kept = np.ones(data.rows, dtype=bool)
        for name in names:
            if self._missing[name] is not None:
                kept &= data.column(name) != self._missing[name]
        return [data.column(name)[kept] for name in names]

    def _mean(self, data: Dataset, name: str) -> Found:
        (codes,) = self._known(data, name)
        values = self._numbers[name][codes]
        return float(values.mean()), float(values.var() / values.size)

    def _linear(self, data: Dataset, outcome: str, predictor: str) -> Found:
        """The slope of a number; of levels the second one's difference to the first."""
        y_codes, x_codes = self._known(data, outcome, predictor)
        y = self._numbers[outcome][y_codes]
        if self._numbers[predictor] is None:
            kept = x_codes < 2
            y, x = y[kept], x_codes[kept].astype(float)
        else:
            x = self._numbers[predictor][x_codes]
        x = x - x.mean()
        slope = float(x @ y / (x @ x))
        rest = y - y.mean() - slope * x
        return slope, float(rest @ rest / (y.size - 2) / (x @ x))

    def _logistic(self, data: Dataset, outcome: str, predictor: str) -> Found:
        y_codes, x_codes = self._known(data, outcome, predictor)
        y, x = (y_codes == 0).astype(float), self._numbers[predictor][x_codes]
        design = np.stack([np.ones(x.size), x - x.mean()], axis=1)
        slope = np.zeros(2)
        for _ in range(50):
            mean = 1 / (1 + np.exp(-design @ slope))
            information = (design.T * (mean * (1 - mean))) @ design
            step = np.linalg.solve(information, design.T @ (y - mean))
            slope += step
            if np.abs(step).max() < 1e-9:
                break
        return float(slope[1]), float(np.linalg.inv(information)[1, 1])


def main() -> None:
    """Print one table for each reconstruction and each way."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reconstruct", nargs="+", default=["gum", "pgm"])
    parser.add_argument("--sigma", type=float, default=22.0)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--moments", choices=("kept", "cut", "both"), default="both")
    options = parser.parse_args()
    schema, data = survey()
    questions = Questions(schema)
    true = {question: ask(data)[0] for question, ask in questions.all.items()}
    print(f"{data.rows:,} records, noise of {options.sigma:g} records, {options.sets} sets,")
    print(f"{options.repeats} repeats. Bias is in standard errors of the noise.\n")
    print("| reconstruction | moments | question | file | bias | covered | seconds a set |")
    print("|---|---|---|---|---|---|---|")
    ways = ("kept", "cut") if options.moments == "both" else (options.moments,)
    for name, way in itertools.product(options.reconstruct, ways):
        started = time.process_time()
        found = [
            one_release(schema, data, questions, name, way, options.sigma, options.sets, repeat)
            for repeat in range(options.repeats)
        ]
        seconds = (time.process_time() - started) / options.repeats / options.sets
        for question, value in true.items():
            each = [release[question] for release in found]
            errors = np.array([estimate - value for estimate, *_ in each])
            noise = np.array([between for _, between, _, _ in each])
            covered = np.mean([low <= value <= high for *_, low, high in each])
            bias = float(np.mean(errors) / np.sqrt(np.mean(noise)))
            print(
                f"| {name} | {way} | {question} | {value:.4g} | {bias:+.2f} | {covered:.2f}"
                f" | {seconds:.2f} |",
                flush=True,
            )


def one_release(
    schema: Schema,
    data: Dataset,
    questions: Questions,
    name: str,
    way: str,
    sigma: float,
    sets: int,
    repeat: int,
) -> dict[str, tuple[float, float, float, float]]:
    """Return for each question estimate, variance of the noise, and the ends of the interval."""
    domain, points = schema.domain, points_of(schema)
    rng = np.random.default_rng([7, repeat])
    measured = []
    for clique in itertools.combinations(domain.columns, 2):
        exact = count(data, clique)
        values = exact + np.rint(rng.normal(0, sigma, exact.shape)).astype(np.int64)
        project = domain.project(clique)
        measured.append(
            Measurement(
                project,
                values,
                noise="gaussian",
                scale=sigma,
                stage="measure",
                replicate=0,
                grant=1,
            )
        )
    reconstruct = unshrunk(registry.find("reconstruction", name)())
    answers: dict[str, list[Found]] = {question: [] for question in questions.all}
    for number in range(1, sets + 1):
        drawn = redraw(measured, number=number, sets=sets, rng=np.random.default_rng([8, repeat]))
        if way == "kept":
            drawn = keep_moments(domain, drawn, points, zeros=ZEROS)
        own = np.random.default_rng([9, repeat, number])
        model = reconstruct.fit(domain, drawn, rows=None, zeros=ZEROS, rng=own)
        if way == "kept":
            model = ModelWithMoments(model, tables_of(drawn), points)
        synthetic = model.sample(model.rows, rng=own)
        for question, ask in questions.all.items():
            answers[question].append(ask(synthetic))
    found = {}
    for question, each in answers.items():
        estimates, variances = np.array(each).T
        combined = combine(estimates, variances, rule="noise-aware")
        low, high = combined.interval(0.95)
        between = (1 + 1 / sets) * float(np.var(estimates, ddof=1))
        found[question] = (float(np.mean(estimates)), between, low, high)
    return found


if __name__ == "__main__":
    main()
