"""The register: all experiments, and all figures and tables of the five papers."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.papers.figures.experiment import Experiment
from benchmarks.papers.figures.experiments import (
    cipher_experiments,
    comparative_experiments,
    mwem_experiments,
    privsyn_experiments,
    sbhg_experiments,
)
from benchmarks.papers.figures.printed import (
    cipher_figures,
    comparative_figures,
    mwem_figures,
    privsyn_figures,
    sbhg_figures,
)
from benchmarks.papers.figures.view import Figure

_EXPERIMENTS = (
    cipher_experiments,
    sbhg_experiments,
    mwem_experiments,
    privsyn_experiments,
    comparative_experiments,
)
_PRINTED = (cipher_figures, sbhg_figures, mwem_figures, privsyn_figures, comparative_figures)

EXPERIMENTS: Mapping[str, Experiment] = {
    each.name: each
    for module in _EXPERIMENTS
    for each in vars(module).values()
    if isinstance(each, Experiment)
}
"""By name."""

FIGURES: Mapping[str, Figure] = {each.name: each for module in _PRINTED for each in module.FIGURES}
"""By name, in the order of the papers."""
