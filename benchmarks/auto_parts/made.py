"""One run of one of the program's presets, in a process of its own: codes in, codes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.auto_parts.files import rows_about
from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.presets import PRESETS
from dp_core.plan.procedure import carry_out, sample

DELTA = Fraction("1e-9")
REFERENCES = ("real", "bootstrap", "permuted")
"""Not private, for comparison: the file, its rows drawn again, each column shuffled by itself."""


@dataclass(frozen=True, slots=True)
class Method:
    """A preset with options, from `PRESET[@LABEL][+STAGE.OPTION=VALUE...]`.

    Attributes:
        preset: Its name.
        options: By `select`, `reconstruct` and `shares`.
    """

    preset: str
    options: Mapping[str, Any]


def method_of(text: str) -> Method:
    """Return the preset and the options that a text names; a label only tells results apart.

    >>> method_of("privsyn@try+select.rule=greedy+shares.select=1/10").options["select"]
    {'rule': 'greedy'}

    Raises:
        SystemExit: if there is no such preset, or an option is not understood.
    """
    head, *settings = text.split("+")
    preset = head.partition("@")[0]
    if preset not in PRESETS and preset not in REFERENCES:
        raise SystemExit(f"There is no preset {preset}; known are {', '.join(PRESETS)}.")
    options: dict[str, dict[str, Any]] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        stage, dot, option = path.partition(".")
        if not equals or not dot or stage not in ("select", "reconstruct", "shares"):
            raise SystemExit(
                f"{setting} in {text} is not understood; write select.OPTION=VALUE,"
                " reconstruct.OPTION=VALUE or shares.STAGE=PART."
            )
        options.setdefault(stage, {})[option] = (
            Fraction(value) if stage == "shares" else _value(value)
        )
    return Method(preset, options)


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float, Fraction):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def synthesize(data: Dataset, text: str, epsilon: Fraction, run: int) -> Dataset:
    """Return the records of one release at (epsilon, 1e-9), add-remove, with exact noise.

    Args:
        data: The file.
        text: Of `method_of`.
        epsilon: Of the guarantee.
        run: Seed of post-processing; noise has none.
    """
    method = method_of(text)
    if method.preset in REFERENCES:
        rng = np.random.default_rng(run)
        if method.preset == "real":
            return data
        if method.preset == "bootstrap":
            return Dataset(data.domain, data.codes[:, rng.integers(0, data.rows, data.rows)])
        return Dataset(data.domain, np.stack([rng.permutation(column) for column in data.codes]))
    about = rows_about(data)
    plan = trial_plan(
        *(data.domain, method.preset, epsilon, DELTA), seed=run, rows_about=about, **method.options
    )
    outcome = carry_out(plan, MemoryCounter(data))
    return sample(outcome.plan, outcome.models, 1)


def warm(text: str) -> None:
    """Import and compile what a method needs, on a file of eight records."""
    codes = np.indices((2, 2, 2), dtype=np.uint16).reshape(3, -1)
    synthesize(Dataset(Domain(("a", "b", "c"), (2, 2, 2)), codes), text, Fraction(5), 0)


def write(data: Dataset, path: Path) -> None:
    """Write a file of codes that `read` reads."""
    columns, sizes = np.array(data.domain.columns), np.array(data.domain.sizes)
    np.savez(path, codes=data.codes, columns=columns, sizes=sizes)


def read(path: Path) -> Dataset:
    """Return a file that `write` wrote."""
    with np.load(path) as parts:
        columns = tuple(str(name) for name in parts["columns"])
        sizes = tuple(int(size) for size in parts["sizes"])
        return Dataset(Domain(columns, sizes), parts["codes"])
