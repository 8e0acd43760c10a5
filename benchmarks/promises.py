"""Does the range of errors that `plan` promises contain the error that a release has?

    python benchmarks/promises.py measure --kept truths.jsonl [--data FOLDER]
        [--without FILE...] [--rounds 0 1] [--delta 1e-9] [--minutes 60] [--seconds 90]
    python benchmarks/promises.py report --kept truths.jsonl
    python benchmarks/promises.py calibrate --kept truths.jsonl

`measure` makes releases in memory, with exact noise, and appends a line of JSON for each to
`--kept`: a file, a preset, a mode, a number of rows, an epsilon, and the mean total variation
distance between the file and the release's first two sets, over all tables of one and two columns
and up to 300 of three. Files are the generated ones (auto_parts/generated.py), the built-in survey,
and every CSV file of `--data` and its folders. A round has one case for every file, preset and
mode; the number of rows (of 500, 2,000, 10,000 and 50,000, at most those of the file) and epsilon
(of .2, 1 and 4) are drawn. Neighbours are add-remove. A case that takes longer than `--seconds` is
left out; cases that are in `--kept` are not made again.

`report` plans each kept case again with the program as it is, and prints for every preset and mode
how many ranges contain the truth, on files of each half, and a row for every case.
`calibrate` prints the constants of `dp_core/plan/forecast/error_calibration.py`, from half A.
The halves divide the files by their names, in alphabetical order: A is the first, third, ...
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import math
import os
import platform
import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks.auto_parts.files import rows_about
from benchmarks.auto_parts.generated import GENERATED
from benchmarks.promise_parts.calibrating import Sample, calibrations, table
from benchmarks.trial import trial_plan
from dp_core.errors import ReleaseError
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.forecast.error_forecast import SetError, ends_of, forecast_error
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.release_spec import Mode

DELTA = "1e-9"
YRBSS = Path(__file__).resolve().parent.parent / "flows" / "demo" / "yrbss.csv.gz"
ROWS = (500, 2_000, 10_000, 50_000)
EPSILONS = ("0.2", "1", "4")
SETS = 5
MADE = 2
"""Sets of a release that are compared with the file."""
BINS = 16
MOST_LEVELS = 5_000
"""A column of more distinct texts is an identifier and left out."""
OFTEN: tuple[tuple[str, Mode], ...] = (
    ("auto", "posterior"),
    ("auto", "shared"),
    ("auto", "split"),
    ("privsyn", "posterior"),
    ("privsyn", "shared"),
    ("privsyn", "split"),
    ("independent", "shared"),
    ("mst", "shared"),
    ("aim", "shared"),
    ("fixed", "posterior"),
    ("fixed", "shared"),
)
SELDOM: tuple[tuple[str, Mode], ...] = (
    ("fixed", "split"),
    ("independent", "split"),
    ("mst", "split"),
    ("fdh", "shared"),
    ("privbayes", "shared"),
    ("mwem-pgm", "shared"),
    ("mwem", "shared"),
    ("cipher", "shared"),
    ("modips", "shared"),
    ("laplace-sanitizer", "shared"),
    ("multinomial-dirichlet", "shared"),
    ("sequential-regression", "shared"),
    ("sba", "shared"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One release that is made; `rows` are drawn from the file without replacement."""

    file: str
    preset: str
    mode: Mode
    rows: int
    epsilon: str
    run: int
    delta: str = DELTA


@dataclass(frozen=True, slots=True)
class Truth:
    """What a case's sets were: mean TVD over tables of one, two and three columns."""

    case: Case
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    rows_about: int
    errors: tuple[float, float, float]
    seconds: float


def files(folder: Path | None) -> dict[str, Path | None]:
    """Return all files by name; None for a generated one."""
    found: dict[str, Path | None] = dict.fromkeys(GENERATED)
    found["yrbss"] = YRBSS
    for path in sorted(folder.rglob("*.csv")) if folder else ():
        found.setdefault(path.stem, path)
    return found


def half(file: str, every: Sequence[str]) -> str:
    """Return the half that a file belongs to."""
    return "AB"[sorted(every).index(file) % 2]


def coded(path: Path) -> Dataset:
    """Return a CSV file as codes: texts by their order, numbers of many values in equal bins."""
    with _opened(path) as text:
        names, *records = csv.reader(text)
    if "count" in names:
        place = names.index("count")
        records = [row for row in records for _ in range(int(row[place]))]
        names.remove("count")
        records = [[*row[:place], *row[place + 1 :]] for row in records]
    codes: dict[str, np.ndarray] = {}
    sizes = []
    for place, name in enumerate(names):
        values = [row[place] for row in records]
        levels = sorted(set(values))
        if len(levels) > MOST_LEVELS or len(levels) < 2:
            continue
        numbers = [_number(level) for level in levels]
        if len(levels) > 2 * BINS and sum(number is None for number in numbers) <= 1:
            known = [number for number in numbers if number is not None]
            low, width = min(known), (max(known) - min(known)) / BINS
            bins = [
                BINS if number is None else min(BINS - 1, int((number - low) / width))
                for number in numbers
            ]
        else:
            bins = list(range(len(levels)))
        coded_as = dict(zip(levels, bins, strict=True))
        column = np.array([coded_as[value] for value in values], dtype=np.uint16)
        if any(np.array_equal(column, other) for other in codes.values()):
            continue  # the same column under two names
        codes[name] = column
        sizes.append(max(bins) + 1)
    return Dataset(Domain(tuple(codes), tuple(sizes)), np.stack(list(codes.values())))


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def load(name: str, path: Path | None) -> Dataset:
    """Return a file as codes."""
    return GENERATED[name](0) if path is None else coded(path)


def cases(
    names: Sequence[str], most: dict[str, int], rounds: Sequence[int], delta: str
) -> Iterator[Case]:
    """Yield the cases in the order in which they are made: `SELDOM` in odd rounds only."""
    for run in rounds:
        asked = (*OFTEN, *SELDOM) if run % 2 else OFTEN
        every = list(itertools.product(names, asked))
        for place in np.random.default_rng(run).permutation(len(every)):
            file, (preset, mode) = every[place]
            fitting = [rows for rows in ROWS if rows < most[file]]
            if most[file] <= ROWS[-1]:
                fitting.append(most[file])
            # What is drawn for a case does not depend on the other cases.
            rng = np.random.default_rng(zlib.crc32(f"{file} {preset} {mode} {run}".encode()))
            rows = int(rng.choice(fitting))
            yield Case(file, preset, mode, rows, str(rng.choice(EPSILONS)), run, delta)


def plan_of(case: Case, domain: Domain, about: int) -> Plan:
    """Return the plan of a case.

    Raises:
        ReleaseError: if the method cannot take the domain.
    """
    options: dict[str, dict[str, object]] = {}
    if case.preset == "fixed":
        options = {"select": {"cliques": tuple(itertools.pairwise(domain.columns))}}
    plan = trial_plan(
        domain,
        case.preset,
        Fraction(case.epsilon),
        Fraction(case.delta),
        sets=SETS,
        mode=case.mode,
        seed=case.run + 1,
        **options,
    )
    return with_rows(plan, about)


def with_rows(plan: Plan, about: int) -> Plan:
    """Return the plan with the public number of rows in its schema."""
    import dataclasses

    schema = dataclasses.replace(plan.spec.schema, rows_about=about)
    return make_plan(dataclasses.replace(plan.spec, schema=schema))


def make(case: Case, whole: Dataset) -> Truth:
    """Return what a release of a case was.

    Raises:
        ReleaseError: if the method cannot make it.
    """
    from dp_core.accounts.memory_session import MemorySession
    from dp_core.confidential.memory_counter import MemoryCounter
    from dp_core.metrics.marginal_error import average_tvd
    from dp_core.plan.procedure import ask_all, fits, sample

    started = time.process_time()
    rng = np.random.default_rng([case.run, case.rows])
    data = Dataset(whole.domain, whole.codes[:, rng.permutation(whole.rows)[: case.rows]])
    plan = plan_of(case, data.domain, rows_about(data))
    session = MemorySession(plan.currency, plan.spec.privacy.neighbours)
    answered = ask_all(plan, MemoryCounter(data), session)
    found = []
    made = fits(answered.plan, answered.released, answered.selections, rows=answered.rows)
    # The promise is of a set; beside those of other modes stands the best one, number 0.
    of_sets = (each for each in made if each[0] or case.mode == "shared")
    for number, model in itertools.islice(of_sets, MADE):
        drawn = sample(answered.plan, {number: model}, max(number, 1))
        found.append([average_tvd(data, drawn, ways).mean for ways in (1, 2, 3)])
    means = np.mean(found, axis=0).tolist()
    return Truth(
        case,
        data.domain.columns,
        data.domain.sizes,
        rows_about(data),
        (means[0], means[1], means[2]),
        time.process_time() - started,
    )


def measure(
    kept: Path,
    places: dict[str, Path | None],
    rounds: Sequence[int],
    delta: str,
    *,
    minutes: float,
    seconds: float,
) -> None:
    """Make releases and keep what they were; each in a process of its own with a time limit."""
    data = {name: load(name, path) for name, path in places.items()}
    data = {name: each for name, each in data.items() if each.rows >= 50}
    done = {truth_or_none[0] for truth_or_none in _lines(kept)}
    ends = time.monotonic() + 60 * minutes
    most = {name: each.rows for name, each in data.items()}
    for case in cases(sorted(data), most, rounds, delta):
        if time.monotonic() > ends:
            break
        if case in done:
            continue
        child = os.fork()
        if child == 0:
            signal.alarm(math.ceil(seconds))
            try:
                line = json.dumps(asdict(make(case, data[case.file])))
            except (ReleaseError, ValueError) as error:
                line = json.dumps({"case": asdict(case), "refused": str(error)[:200]})
            with kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"case": asdict(case), "refused": f"ended: {status}"}) + "\n")


def samples(made: Sequence[Truth]) -> list[Sample]:
    """Return what theory expects of the pairs of releases, and what they were.

    Releases that theory does not cover are left out.
    """
    found: list[Sample] = []
    for truth in made:
        plan = plan_of(truth.case, Domain(truth.names, truth.sizes), truth.rows_about)
        if "select" not in plan.spec.document:
            continue
        selection = selection_of(plan)
        ends = ends_of(plan, selection, truth.rows_about)
        if ends is None:
            continue
        kind, columns = (selection, truth.case.mode), len(truth.sizes)
        least, most, error = ends[0].two, ends[1].two, truth.errors[1]
        if min(least, error) > 0:
            found.append(Sample(truth.case.file, kind, columns, (least, most), error))
    return found


def selection_of(plan: Plan) -> str:
    """Return the name of a plan's selection method."""
    section: Any = plan.spec.document["select"]
    return str(section["method"])


def report(made: Sequence[Truth], every: Sequence[str], kept: Path) -> None:
    """Print which ranges contain the truth, by half, preset and mode, and every case."""
    found: dict[tuple[str, str], list[tuple[Truth, SetError | None]]] = {}
    for truth in made:
        plan = plan_of(truth.case, Domain(truth.names, truth.sizes), truth.rows_about)
        case = truth.case
        found.setdefault((case.preset, case.mode), []).append(
            (truth, next(iter(forecast_error(plan).sets), None))
        )
    print(f"# python {' '.join(sys.argv)}")
    print(f"# {platform.platform()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"# {len(made)} releases of {len({t.case.file for t in made})} files in {kept.name};")
    print("# half A has the constants, half B checks them; add-remove, 5 sets")
    print()
    head = ("preset", "mode", "A: two-way", "B: two-way", "median high/low", "")
    print("{:22}{:12}{:>12}{:>12}{:>17}".format(*head))
    sums: Counter[str] = Counter()
    ratios = []
    for kind, own in sorted(found.items()):
        if all(promised is None for _, promised in own):
            print(f"{kind[0]:22}{kind[1]:12}  no forecast ({len(own)} cases)")
            continue
        hits: Counter[str] = Counter()
        wide = []
        for truth, promised in own:
            if promised is None:
                continue
            side = half(truth.case.file, every)
            hits[side] += 1
            hits[f"{side}2"] += _hit(promised.two_way, truth.errors[1])
            wide.append(promised.two_way[1] / promised.two_way[0])
        sums.update(hits)
        ratios += wide
        texts = (f"{hits[key]}/{hits[key[0]]}" for key in ("A2", "B2"))
        print(f"{kind[0]:22}{kind[1]:12}", *(f"{text:>12}" for text in texts), end="")
        print(f"{np.median(wide):>17.2f}")
    parts = [
        f"{side} 2-way {sums[f'{side}2'] / max(sums[side], 1):.3f} of {sums[side]}" for side in "AB"
    ]
    print(f"\nall: {'; '.join(parts)}; median high/low {np.median(ratios):.2f}\n")
    line = "{:5}{:18}{:22}{:12}{:>6}{:>5} {:>5}  {:17} {:6} {}"
    head = ("half", "file", "preset", "mode", "rows", "eps", "delta", "promised", "truth", "")
    print(line.format(*head).rstrip())
    for own in (found[kind] for kind in sorted(found)):
        for truth, promised in sorted(own, key=lambda each: each[0].case.file):
            case, said, end = truth.case, "no forecast", ""
            if promised is not None:
                low, high = promised.two_way
                said = f"{low:.4f} to {high:.4f}"
                end = "hit" if _hit(promised.two_way, truth.errors[1]) else "MISS"
            where = half(case.file, every), case.file, case.preset, case.mode, case.rows
            ends = said, f"{truth.errors[1]:.4f}", end
            print(line.format(*where, case.epsilon, case.delta, *ends).rstrip())


def _hit(promised: tuple[float, float], truth: float) -> bool:
    return promised[0] <= truth <= promised[1]


def _lines(kept: Path) -> Iterator[tuple[Case, Truth | None]]:
    if not kept.exists():
        return
    for line in kept.read_text(encoding="utf-8").splitlines():
        read = json.loads(line)
        case = Case(**read.pop("case"))
        if "refused" in read:
            yield case, None
            continue
        one, two, three = read["errors"]
        yield (
            case,
            Truth(
                case,
                tuple(read["names"]),
                tuple(read["sizes"]),
                read["rows_about"],
                (one, two, three),
                read["seconds"],
            ),
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "report", "calibrate"))
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--without", nargs="*", default=(), metavar="FILE")
    parser.add_argument("--rounds", type=int, nargs="*", default=(0,))
    parser.add_argument("--delta", default=DELTA)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=90)
    asked = parser.parse_args()
    if asked.what == "measure":
        places = {
            name: path for name, path in files(asked.data).items() if name not in asked.without
        }
        limits = {"minutes": asked.minutes, "seconds": asked.seconds}
        measure(asked.kept, places, asked.rounds, asked.delta, **limits)
        return
    made = [truth for _, truth in _lines(asked.kept) if truth is not None]
    every = sorted({truth.case.file for truth in made})
    if asked.what == "report":
        report(made, every, asked.kept)
        return
    side = [truth for truth in made if half(truth.case.file, every) == "A"]
    print(table(calibrations(samples(side))))


if __name__ == "__main__":
    main()
