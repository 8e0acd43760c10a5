"""Every figure of the papers by one command.

    python -m benchmarks.papers.figures list
    python -m benchmarks.papers.figures run [NAME ...] --data DIR [--processes 2] [--repeats N]
    python -m benchmarks.papers.figures show [NAME ...]

NAME is the name of a figure or an experiment, or the beginning of one (`cipher`, `simulation-1`);
without names, all are used. `run` stores each cell when it is finished; after a kill, the same
command continues. `--data` is the folder with adult.csv, bankruptcy.csv, fertility.csv and
nltcs.csv and their JSON files; experiments that need a missing file are left out and listed.
`--quick` makes two repeats of everything, in a separate folder. From what is stored, `show` writes
a picture of every figure and `summary.txt`, or prints the tables of named figures.

Results are in the newest folder benchmarks/results/DATE-figures, unless `--results` names another.
Seeds fix the data and all drawing after release; the noise of releases is exact and takes no seed,
so another run agrees only within the errors of its repeats.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.common import versions
from benchmarks.papers.figures.experiment import Context, Experiment
from benchmarks.papers.figures.pictures import picture, table
from benchmarks.papers.figures.register import EXPERIMENTS, FIGURES
from benchmarks.papers.figures.running import Forecast, run, todo
from benchmarks.papers.figures.store import Store
from benchmarks.papers.figures.view import Figure

RESULTS = Path(__file__).parents[2] / "results"
QUICK = 2


def newest() -> Path:
    """Return the newest folder of results, or today's."""
    found = sorted(RESULTS.glob("????-??-??-figures"))
    return found[-1] if found else RESULTS / f"{datetime.date.today().isoformat()}-figures"


def meant(name: str, given: Sequence[str]) -> bool:
    """Return whether names mean one: they name it, or name nothing and are its beginning."""
    whole = {*FIGURES, *EXPERIMENTS}
    return any(name == each or (each not in whole and name.startswith(each)) for each in given)


def figures_of(names: Sequence[str]) -> list[Figure]:
    """Return the figures that names mean, by their own names or those of their experiments."""
    found = []
    for figure in FIGURES.values():
        drawn = figure.drawing.experiments if figure.drawing else ()
        if not names or any(meant(each, names) for each in (figure.name, *drawn)):
            found.append(figure)
    return found


def experiments_of(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that names mean, each once, in the order of the register."""
    drawn = {
        name
        for figure in figures_of(names)
        if figure.drawing
        for name in figure.drawing.experiments
    }
    named = {name for name in EXPERIMENTS if meant(name, names)}
    return [each for name, each in EXPERIMENTS.items() if name in (named or drawn)]


def check_names(names: Sequence[str]) -> None:
    """End with a sentence if a name means nothing.

    Raises:
        SystemExit: with exit code 2, naming the nearest names.
    """
    known = (*FIGURES, *EXPERIMENTS)
    for name in names:
        if not any(meant(each, [name]) for each in known):
            near = difflib.get_close_matches(name, known, 3)
            hint = f" Did you mean {', '.join(near)}?" if near else " `list` prints all names."
            print(f"No figure or experiment is named {name!r}.{hint}", file=sys.stderr)
            raise SystemExit(2)


def states(figures: Sequence[Figure], store: Store) -> None:
    """Print for each figure its experiment, or why it has none, and each claim."""
    for figure in figures:
        if figure.drawing is None:
            state = f"not reproduced: {figure.reason}"
        else:
            parts = []
            for name in figure.drawing.experiments:
                each = EXPERIMENTS[name]
                points = store.points(name)
                stored = min((point.repeats for point in points), default=0)
                complete = len(points) == len(each.settings)
                paper = f", paper {each.published}" if each.published else ""
                parts.append(
                    f"{name} ({stored if complete else 'not all'} of {each.repeats} repeats{paper})"
                )
            state = "; ".join(parts)
        print(f"{figure.name:<20} {figure.paper}, {figure.number}: {figure.caption}")
        print(f"{'':<20}   {state}")
        for claim in figure.claims:
            print(f"{'':<20}   - {claim.text} {claim.verdict.capitalize()}: {claim.why}")


def forecasts(store: Store, context: Context) -> float:
    """Print the CPU time of every experiment at its own repeats; return the sum in hours."""
    forecast, total = Forecast(store, EXPERIMENTS.values()), 0.0
    print("\nCPU by experiment, as far as it was measured:")
    for name, each in EXPERIMENTS.items():
        known = name in forecast.whole
        seconds = forecast.seconds(each.cells(context, each.repeats)) if known else 0.0
        total += seconds
        work = len(each.settings) * each.repeats
        shown = f"{seconds:8.0f} s, {1000 * seconds / work:8.1f} ms a repeat" if known else "  ?"
        paper = f" (paper {each.published})" if each.published else ""
        print(f"{name:<26} {len(each.settings):>5} settings x {each.repeats}{paper}: {shown}")
    print(f"all: {total / 3600:.1f} h of CPU, {total / 7200:.1f} h by two processes")
    return total / 3600


def carry_out(arguments: argparse.Namespace, store: Store, context: Context) -> None:
    """Run the cells that are not stored yet."""
    wanted = []
    for experiment in experiments_of(arguments.names):
        if experiment.needs and not (context.data and (context.data / experiment.needs).exists()):
            print(f"{experiment.name} is left out: it needs {experiment.needs} (--data).")
        else:
            wanted.append(experiment)
    repeats = QUICK if arguments.quick else arguments.repeats
    for experiment in wanted:
        store.merge(experiment.name)
    cells = todo(wanted, store, context, repeats)
    forecast = Forecast(store, wanted)
    hours = forecast.seconds(cells) / 3600
    print(f"{versions()}; {len(cells)} cells to run, {hours:.1f} h of CPU as far as is known")
    run(cells, store, context, forecast, processes=arguments.processes)
    for experiment in wanted:
        store.merge(experiment.name)


def show(names: Sequence[str], store: Store) -> None:
    """Write the picture of every figure; print the tables of named figures, or write all tables."""
    lines = []
    for figure in figures_of(names):
        path = picture(figure, store, store.folder)
        if path is not None:
            print(f"{path} ({path.stat().st_size // 1000} kB)", flush=True)
        if not (found := list(table(figure, store))):
            continue
        lines += [f"{figure.paper}, {figure.number}: {figure.caption}", *found]
        lines += [f"- {claim.text} {claim.verdict}: {claim.why}" for claim in figure.claims]
        lines += ["", "-" * 100, ""]
    if not lines:
        print(f"Nothing of it is stored in {store.folder}.")
    elif names:
        print("\n".join(lines))
    else:
        (store.folder / "summary.txt").write_text("\n".join(lines), encoding="utf-8")


def main(given: Sequence[str] | None = None) -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("do", choices=["list", "run", "show"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data", type=Path, help="folder with the papers' files")
    parser.add_argument("--results", type=Path, help="folder of results")
    parser.add_argument("--repeats", type=int, help="of each setting, rounded up to whole cells")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} repeats of everything")
    arguments = parser.parse_args(given)
    check_names(arguments.names)
    folder = arguments.results or (RESULTS / "quick-figures" if arguments.quick else newest())
    store, context = Store(folder), Context(arguments.seed, arguments.data)
    if arguments.do == "run":
        carry_out(arguments, store, context)
    elif arguments.do == "show":
        show(arguments.names, store)
    else:
        states(figures_of(arguments.names), store)
        forecasts(store, context)


if __name__ == "__main__":
    main()
