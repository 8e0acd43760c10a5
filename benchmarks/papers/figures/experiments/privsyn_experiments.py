"""PrivSyn (Zhang et al. 2021): what the slides' two comparisons draw, each of three tasks.

The task of classification has three learners: the slides' linear support vector machine, a
decision tree, and gradient-boosted trees.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from benchmarks.adult import LEVELS, load
from benchmarks.papers import privsyn
from benchmarks.papers.figures.experiment import Context, Experiment, Setting, Values, grid
from benchmarks.papers.figures.experiments.sbhg_experiments import tree_accuracy
from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.measures.classification import misclassification

ROWS = {row.label: row for row in privsyn.ROWS}
EPSILONS = ("0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4", "1.6", "1.8", "2")
DUALQUERY = "dualquery"


@cache
def judge(context: Context) -> privsyn.SuiteJudge:
    """Return the tasks on the Adult file."""
    return privsyn.SuiteJudge(load(context.file("adult.csv")), trees=False)


def tasks(context: Context, setting: Setting, repeats: range) -> Values:
    """Return the error of each task."""
    judged, label = judge(context), str(setting["method"])
    data, found = judged.data, []
    for repeat in repeats:
        if label == "bootstrap of the file":
            rng = context.generator("privsyn", label, repeat)
            made = Dataset(data.domain, data.codes[:, rng.integers(0, data.rows, data.rows)])
        elif label == "commonest income":
            made = Dataset(data.domain, data.codes[:, data.column("income") == 0])
        else:
            seed = repeat + 1 + 1_000_000 * (context.seed - 1)
            made = privsyn.synthesize(data, ROWS[label], Fraction(str(setting["epsilon"])), seed)
        values = judged.judge(made)
        values["tree"] = 1 - tree_accuracy(made, data, "income")
        values["boosted trees"] = misclassification(made, data, "income", nominal=tuple(LEVELS))
        if label == "commonest income":
            values |= {"pairs": np.nan, "ranges": np.nan}
        found.append(values)
    return {name: [row[name] for row in found] for name in found[0]}


TASKS = Experiment(
    "privsyn-tasks",
    grid(method=tuple(label for label in ROWS if label != DUALQUERY), epsilon=EPSILONS)
    + grid(method=("bootstrap of the file", "commonest income"), epsilon=("none",)),
    tasks,
    repeats=5,
    published=0,
    block=1,
    needs="adult.csv",
)
TASKS_DUALQUERY = Experiment(
    "privsyn-tasks-dualquery",
    grid(method=(DUALQUERY,), epsilon=("0.2", "1", "2")),
    tasks,
    repeats=5,
    published=0,
    block=1,
    needs="adult.csv",
)
