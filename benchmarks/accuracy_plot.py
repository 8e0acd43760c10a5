"""Draws docs/accuracy.svg from the first table of docs/accuracy.md, which it is a picture of.

python benchmarks/accuracy_plot.py
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"


def distances(page: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return epsilon and average TVD of pairs by file and method, from the page's first table."""
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    head, _, *rows = lines[: next(at for at, line in enumerate(lines) if at and len(line) != 7)]
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    file = ""
    for at, title in enumerate(head[1:], start=1):
        *named, epsilon = title.split()
        file = named[0] if named else file
        for row in rows:
            pairs = float(re.findall(r"[\d.]+", row[at])[0])
            method = row[0].strip(" `")
            found.setdefault(file, {}).setdefault(method, []).append((float(epsilon), pairs))
    return found


def main() -> None:
    """Write the picture."""
    mpl.rcParams["svg.hashsalt"] = "accuracy"  # the same file every time
    files = distances((DOCS / "accuracy.md").read_text(encoding="utf-8"))
    figure, axes = plt.subplots(1, len(files), figsize=(8, 3), sharey=True, layout="constrained")
    for axis, (file, methods) in zip(axes, files.items(), strict=True):
        for method, points in methods.items():
            axis.plot(*zip(*points, strict=True), marker="o", label=method)
        axis.set(title=file, xscale="log", yscale="log", xlabel="epsilon")
        axis.set_xticks([0.2, 1, 5], ["0.2", "1", "5"], minor=False)
        axis.minorticks_off()
    axes[0].set_ylabel("average TVD of pairs")
    axes[-1].legend()
    figure.savefig(DOCS / "accuracy.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
