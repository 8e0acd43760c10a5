"""Is `auto` the best at every epsilon? Against presets, public tools, and as training data.

    python benchmarks/auto.py files
    python benchmarks/auto.py ours --files generated --presets independent,mst,privsyn,auto \
        --epsilons .2,1,5 --runs 3 --results auto.csv
    python benchmarks/auto.py ours --files nltcs,adult --nltcs nltcs.csv --adult adult.csv
    python benchmarks/auto.py install --venvs venvs
    python benchmarks/auto.py peers --venvs venvs --files nltcs,adult --nltcs ... --adult ...
    python benchmarks/auto.py peers --venvs venvs --files chains_60,tree_60 --epsilons 1
    python benchmarks/auto.py downstream --adult adult.csv --presets real,auto,mst
    python benchmarks/auto.py pipeline --nltcs nltcs.csv --adult adult.csv --presets auto

The guarantee is (epsilon, 1e-9), add-remove, with exact noise; seeds of post-processing are the
numbers of the runs. Figures are average total variation distances to the real file over all pairs
of columns and over all, or 300 seeded, triples; in brackets the standard error of the mean of the
runs. A schema of the file would say `rows_about` to two digits, and so is `auto` told. Each run is
a process of its own, with a limit of CPU time and memory; its wall and CPU seconds include imports
and compilation, and its peak is that of all its processes. With `--fork` runs are forks that import
nothing: seconds less for each, for setting constants.

Single runs are appended to `--results`: what is in it is not run again (`--again` does), so that a
benchmark that was stopped goes on, and another preset is added to the table by itself. A preset may
have options and a label: `auto@first+select.OPTION=VALUE+shares.select=1/20`. `bootstrap` (rows
drawn again) and `permuted` (columns shuffled) are not private and say what is possible.

The constants of `auto` were set on draw 0 of the generated files; `--draw 1` makes others of the
same kinds. Files such as `chains_60` have as many columns as their name says (auto_parts/wide.py);
`trees_64_1000` has a joint table of 64 cells and 1,000 records (auto_parts/few_cells.py).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.auto_parts import downstream, made, pipeline, public_tools, results
from benchmarks.auto_parts.files import Places, load, names_of
from benchmarks.auto_parts.generated import GENERATED, described
from benchmarks.auto_parts.running import Job, Limits, commit, run_all
from benchmarks.papers.common import versions
from dp_core.kernel.counting.dataset import Dataset


def ours(arguments: argparse.Namespace) -> None:
    """Compare presets of the program on the files asked for."""
    places = _places(arguments)
    for method in arguments.presets:
        made.method_of(method)
    if arguments.fork:
        for method in arguments.presets:
            made.warm(method)
    found = run_all(
        _jobs(arguments, arguments.presets),
        lambda name: load(name, places),
        arguments.results,
        _limits(arguments),
        _fork if arguments.fork else _command,
        lambda path, _: made.read(path.with_suffix(".npz")),
        again=arguments.again,
        retry=arguments.retry,
    )
    report(found.values(), arguments.presets)


def peers(arguments: argparse.Namespace) -> None:
    """Compare public tools on the files asked for, beside our presets that the CSV has."""
    public_tools.check(arguments.tools, arguments.venvs)
    found = run_all(
        _jobs(arguments, arguments.tools),
        lambda name: load(name, _places(arguments)),
        arguments.results,
        _limits(arguments),
        lambda job, source, target: public_tools.command(job, source, target, arguments.venvs),
        public_tools.read,
        again=arguments.again,
        retry=arguments.retry,
    )
    wanted = {(file, data, epsilon) for file, data, _, epsilon, _ in found}
    others = {
        key: result
        for key, result in results.read(arguments.results).items()
        if (key[0], key[1], key[3]) in wanted and ":" not in key[2]
    }
    report(
        [*others.values(), *found.values()],
        [*dict.fromkeys(result.method for result in others.values()), *arguments.tools],
    )


def learning(arguments: argparse.Namespace) -> None:
    """Train on synthetic records, test on real ones that no method was given."""
    arguments.files = arguments.files or [
        name for name in downstream.TARGETS if getattr(arguments, name)
    ]
    places = _places(arguments)
    parts = cache(lambda name: downstream.split(load(name, places)))
    methods = [*arguments.presets, *arguments.tools]
    for method in arguments.presets:
        made.method_of(method)
    if arguments.tools:
        public_tools.check(arguments.tools, arguments.venvs)

    def work(job: Job, source: Path, target: Path) -> list[str]:
        if job.method in arguments.tools:
            return public_tools.command(job, source, target, arguments.venvs)
        return _command(job, source, target)

    def read(path: Path, data: Dataset) -> Dataset:
        ours = path.with_suffix(".npz")
        return made.read(ours) if ours.exists() else public_tools.read(path, data)

    found = run_all(
        _jobs(arguments, methods),
        lambda name: parts(name)[0],
        arguments.results,
        _limits(arguments),
        work,
        read,
        score=lambda name, _, records: downstream.misclassified(
            records, parts(name)[1], downstream.TARGETS[name]
        ),
        again=arguments.again,
        retry=arguments.retry,
    )
    print(f"\n{_made_by(found.values())}\n")
    print(results.table(found.values(), methods, [*results.LEARNERS, *results.WAYS]))


def whole(arguments: argparse.Namespace) -> None:
    """Measure whole releases, Prefect around them, of NLTCS and Adult."""
    from presets import adult_schema, nltcs_schema  # beside the script

    schemas, data = {}, {}
    if arguments.nltcs:
        schemas["nltcs"], data["nltcs"] = nltcs_schema(arguments.nltcs), arguments.nltcs
    if arguments.adult:
        schemas["adult"], data["adult"] = adult_schema(), arguments.adult
    print(f"{versions()}, {os.cpu_count()} processors, commit {commit()}\n")
    pipeline.measure(
        schemas, data, arguments.presets, arguments.epsilons, arguments.runs, _limits(arguments)
    )


def one(arguments: argparse.Namespace) -> None:
    """Do one run and write its records: what the process of a run does."""
    data = made.read(arguments.data)
    records: Dataset = made.synthesize(
        data, arguments.preset, Fraction(arguments.epsilon), arguments.run
    )
    made.write(records, arguments.made)


def report(found: Iterable[results.Result], methods: Sequence[str]) -> None:
    """Print versions and both tables."""
    found = list(found)
    print(f"\n{_made_by(found)}\n")
    print(results.table(found, methods))
    print("\nMean over files of the log-ratio to the best of", ", ".join(results.AGAINST), "\n")
    print(results.against_best(found, methods))


def _made_by(found: Iterable[results.Result]) -> str:
    commits = ", ".join(sorted({result.commit for result in found}))
    return f"{versions()}, {os.cpu_count()} processors, commits {commits}"


def _command(job: Job, source: Path, target: Path) -> list[str]:
    options = ["--data", source, "--made", target.with_suffix(".npz"), "--preset", job.method]
    options += ["--epsilon", job.epsilon, "--run", job.run]
    return [sys.executable, __file__, "one", *map(str, options)]


def _fork(job: Job, source: Path, target: Path) -> Callable[[], None]:
    def do() -> None:
        data = made.read(source)
        records = made.synthesize(data, job.method, Fraction(job.epsilon), job.run)
        made.write(records, target.with_suffix(".npz"))

    return do


def _jobs(arguments: argparse.Namespace, methods: Sequence[str]) -> list[Job]:
    return [
        Job(file, method, epsilon, run)
        for file in names_of(arguments.files, _places(arguments))
        for epsilon in arguments.epsilons
        for method in methods
        for run in range(arguments.runs)
    ]


def _places(arguments: argparse.Namespace) -> Places:
    return Places(arguments.nltcs, arguments.adult, arguments.draw)


def _limits(arguments: argparse.Namespace) -> Limits:
    return Limits(arguments.limit, arguments.memory, arguments.jobs)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _common(parser: argparse.ArgumentParser, kept: str = "auto-results.csv") -> None:
    """Add the options of everything that makes a table."""
    parser.add_argument("--files", type=_list, default=["generated"])
    parser.add_argument("--epsilons", type=_list, default=[".2", "1", "5"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nltcs", type=Path, help="path of nltcs.csv")
    parser.add_argument("--adult", type=Path, help="path of adult.csv")
    parser.add_argument("--draw", type=int, default=0, help="of the generated files")
    parser.add_argument("--results", type=Path, default=Path(kept))
    parser.add_argument("--again", action="store_true", help="do what is in the CSV anew")
    parser.add_argument("--retry", action="store_true", help="do those beyond a limit anew")
    parser.add_argument("--limit", type=float, default=600.0, help="CPU seconds of one run")
    parser.add_argument("--memory", type=float, default=8_000.0, help="megabytes of one run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")


def main() -> None:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    files = commands.add_parser("files", help="describe the generated files")
    files.set_defaults(do=lambda _: print(described(list(GENERATED))))
    own = commands.add_parser("ours", help="compare the program's presets")
    own.add_argument("--presets", type=_list, default=["independent", "mst", "privsyn"])
    own.add_argument("--fork", action="store_true", help="runs are forks, without imports")
    own.set_defaults(do=ours)
    _common(own)
    installed = commands.add_parser("install", help="install the public tools, a venv each")
    installed.add_argument("--venvs", type=Path, required=True)
    installed.set_defaults(do=lambda arguments: public_tools.install(arguments.venvs))
    public = commands.add_parser("peers", help="compare public tools")
    public.add_argument("--tools", type=_list, default=list(public_tools.METHODS))
    public.add_argument("--venvs", type=Path, required=True, help="folder of `install`")
    public.set_defaults(do=peers)
    _common(public)
    learnt = commands.add_parser("downstream", help="train on synthetic, test on real")
    learnt.add_argument("--presets", type=_list, default=["real", "independent", "mst", "privsyn"])
    learnt.add_argument("--tools", type=_list, default=[], help="public tools")
    learnt.add_argument("--venvs", type=Path, help="folder of `install`")
    learnt.set_defaults(do=learning)
    _common(learnt, "auto-downstream.csv")
    learnt.set_defaults(files=[])
    measured = commands.add_parser("pipeline", help="time and memory of whole releases")
    measured.add_argument("--presets", type=_list, default=["privsyn"])
    measured.set_defaults(do=whole)
    _common(measured)
    measured.set_defaults(epsilons=["1"], runs=1)
    single = commands.add_parser("one", help="(one run; for the others)")
    for option in ("--data", "--made"):
        single.add_argument(option, type=Path, required=True)
    for option in ("--preset", "--epsilon"):
        single.add_argument(option, required=True)
    single.add_argument("--run", type=int, required=True)
    single.set_defaults(do=one)
    arguments = parser.parse_args()
    # So that what is being run ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments.do(arguments)


if __name__ == "__main__":
    main()
