"""All tables of speed and memory by one command, each kept as a dated file.

    python -m venv peers; peers/bin/pip install -e . mbi polars duckdb pandas
    peers/bin/python benchmarks/speed.py
    peers/bin/python benchmarks/speed.py --parts growth release --most-rows 10000000
    peers/bin/python benchmarks/auto.py install --venvs venvs
    peers/bin/python benchmarks/speed.py --venvs venvs --nltcs nltcs.csv --adult adult.csv

Parts are run one after the other, so leave the machine alone; the whole takes two hours on two
cores and 12 GB of disk. Each part is a benchmark by itself, whose docstring says what is measured
and against whom. Other tools from file to synthetic records need environments of their own and two
files: the last two lines; a quarter of an hour more.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
TITLES = {
    "counting": "counting against other tools",
    "growth": "counting: rows, columns, levels, memory",
    "streaming": "the passes over a file of 10,000,000 rows",
    "workers": "counting over Dask and its workers",
    "startup": "what commands cost before they do anything",
    "pieces": "large sets drawn in pieces",
    "release": "whole releases: rows and sets",
    "tools": "from NLTCS and Adult to synthetic records, beside other tools",
}
TOOLS = "mbi:mst,smartnoise:mst,dpmm:mst,dpmm:privbayes"
PLACES = ("keep", "plot", "results", "venvs", "nltcs", "adult")
"""Options that name places of this machine, which are not kept."""


def commands(
    part: str, *, most_rows: int, plot: Path, keep: Path, others: Sequence[Path]
) -> list[list[str]]:
    """Return the command lines of a part, below `benchmarks/`."""
    if part == "tools":
        venvs, nltcs, adult = map(str, others)
        files = ["--files", "nltcs,adult", "--nltcs", nltcs, "--adult", adult]
        once = ["--epsilons", "1", "--runs", "1", "--again", "--results", str(keep / "tools.csv")]
        return [
            ["auto.py", "ours", *files, *once, "--presets", "auto,privsyn,mst"],
            ["auto.py", "peers", *files, *once, "--venvs", venvs, "--tools", TOOLS],
        ]
    rows = [str(10**power) for power in range(6, 9) if 10**power <= most_rows]
    large = str(min(most_rows, 10_000_000))
    release = ["large_release.py", "--method", "privsyn", "--keep", str(keep)]
    return {
        "counting": [
            ["counting.py", "--rows", large, "--repetitions", "2", "--only", "pairs"],
            ["counting.py", "--rows", "1000000"],
        ],
        "growth": [["growth.py", "--most-rows", str(most_rows), "--plot", str(plot)]],
        "streaming": [["streaming.py", "--rows", large, "--keep", str(keep)]],
        "workers": [["cluster.py", "--rows", str(min(most_rows, 60_000_000)), "--turns", "7"]],
        "startup": [["startup.py"]],
        "pieces": [["pieces.py"], ["pieces.py", "--method", "pgm", "--files", "peaked"]],
        "release": [
            *([*release, "--rows", number] for number in rows),
            *([*release, "--rows", "1000000", "--sets", number] for number in ("2", "5")),
        ],
    }[part]


def main() -> None:
    """Run the parts and keep what they print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(TITLES))
    parser.add_argument("--most-rows", type=int, default=100_000_000)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--keep", type=Path, default=Path("files"), help="folder of made files")
    parser.add_argument("--venvs", type=Path, help="where auto.py installed other tools")
    for name in ("nltcs", "adult"):
        parser.add_argument(f"--{name}", type=Path, help=f"path of {name}.csv")
    options = parser.parse_args()
    others = [place.absolute() for place in (options.venvs, options.nltcs, options.adult) if place]
    parts = options.parts or [part for part in TITLES if part != "tools" or others]
    if "tools" in parts and len(others) < 3:
        parser.error("part tools needs --venvs, --nltcs and --adult.")
    out, keep = options.out.absolute(), options.keep.absolute()
    out.mkdir(parents=True, exist_ok=True)
    begin = f"{datetime.datetime.now(datetime.UTC).date()}-"
    # A user's Python keeps compiled modules; a machine that forbids it would be measured slower.
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    } | {"PYTHONPATH": str(ROOT)}
    keep.mkdir(parents=True, exist_ok=True)
    for part in parts:
        plot = out / f"{begin}{part}.png"
        with (out / f"{begin}{part}.txt").open("w", encoding="utf-8") as kept:
            lines = commands(part, most_rows=options.most_rows, plot=plot, keep=keep, others=others)
            for line in lines:
                told = " ".join(["python", f"benchmarks/{line[0]}", *_without_places(line[1:])])
                kept.write(f"$ {told}\n")
                print(f"\n{TITLES[part]}: {told}", flush=True)
                with subprocess.Popen(
                    [sys.executable, str(HERE / line[0]), *line[1:]],
                    cwd=ROOT,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                ) as child:
                    assert child.stdout is not None
                    for text in child.stdout:
                        print(text, end="", flush=True)
                        kept.write(text)
                if child.returncode:
                    raise SystemExit(f"{told} ended with {child.returncode}.")
                kept.write("\n")


def _without_places(arguments: list[str]) -> list[str]:
    """Leave out options that name folders of this machine."""
    places = {f"--{name}" for name in PLACES}
    return [
        argument
        for before, argument in zip(["", *arguments], arguments, strict=False)
        if argument not in places and before not in places
    ]


if __name__ == "__main__":
    main()
