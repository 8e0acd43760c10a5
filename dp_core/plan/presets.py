"""Presets: a method's name in the spec, and what it sets for each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dp_core.kernel.privacy import Noise, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Default stages of a method; keys of the spec override them one by one.

    Attributes:
        select: Name of the selection method; empty for a parametric method.
        reconstruct: Name of the reconstruction method; empty for a parametric method.
        synthesize: Name of the parametric method; empty for the others.
        shares: Shares of the stages, summing to 1; a missing stage has 0.
        noise: Kind of count noise, or None for the smaller one.
        options: Options by stage (`select`, `reconstruct`, `synthesize`) that differ from the
            methods' own.
    """

    select: str = ""
    reconstruct: str = ""
    synthesize: str = ""
    shares: Mapping[Stage, Fraction]
    noise: Noise | None = None
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def _percent(
    *, total: int = 0, one_way: int = 0, select: int = 0, measure: int = 0
) -> Mapping[Stage, Fraction]:
    """Return the shares of stages from percentages; a stage with 0 is left out."""
    stated: Mapping[Stage, int] = {
        "total": total,
        "one_way": one_way,
        "select": select,
        "measure": measure,
    }
    return {stage: Fraction(percent, 100) for stage, percent in stated.items() if percent}


PRESETS: Mapping[str, Preset] = {
    "auto": Preset(
        select="auto", reconstruct="auto", shares=_percent(one_way=10, select=5, measure=85)
    ),
    "independent": Preset(
        select="one_way", reconstruct="independent", shares=_percent(measure=100)
    ),
    "fdh": Preset(
        select="full", reconstruct="dense", shares=_percent(total=2, measure=98), noise="laplace"
    ),
    "fixed": Preset(select="fixed", reconstruct="gum", shares=_percent(one_way=10, measure=90)),
    "privsyn": Preset(
        select="densemarg", reconstruct="gum", shares=_percent(one_way=10, select=5, measure=85)
    ),
    "cipher": Preset(
        select="ways",
        reconstruct="cipher",
        shares=_percent(total=2, measure=98),
        noise="laplace",
        options={"select": {"allocation": "equal"}},
    ),
    "mwem": Preset(
        select="mwem",
        reconstruct="multiplicative_weights",
        shares=_percent(total=2, select=49, measure=49),
    ),
    "fourier": Preset(
        select="fourier", reconstruct="multiplicative_weights", shares=_percent(measure=100)
    ),
    "mst": Preset(
        select="mst", reconstruct="pgm", shares=_percent(one_way=30, select=20, measure=50)
    ),
    "aim": Preset(select="aim", reconstruct="pgm", shares=_percent(select=10, measure=90)),
    "mwem-pgm": Preset(
        select="mwem_pgm", reconstruct="pgm", shares=_percent(select=20, measure=80)
    ),
    "privbayes": Preset(
        select="privbayes",
        reconstruct="bayes_network",
        shares=_percent(total=1, select=10, measure=89),
    ),
    "dualquery": Preset(
        select="dualquery", reconstruct="records", shares=_percent(one_way=20, select=80)
    ),
    "sba": Preset(
        select="sba", reconstruct="sparse", shares=_percent(total=2, measure=98), noise="laplace"
    ),
    "sbhg": Preset(
        select="sbhg",
        reconstruct="gibbs",
        shares=_percent(total=2, select=5, measure=93),
        noise="laplace",
    ),
    "pegs": Preset(
        select="pegs", reconstruct="records", shares=_percent(total=2, select=10, measure=88)
    ),
    "steps": Preset(select="steps", reconstruct="auto", shares=_percent(select=10, measure=90)),
    "laplace-sanitizer": Preset(
        synthesize="laplace_sanitizer", shares=_percent(total=2, measure=98)
    ),
    "perturbed-histogram": Preset(
        synthesize="laplace_sanitizer",
        shares=_percent(total=2, measure=98),
        noise="laplace",
        options={"synthesize": {"categories": Fraction(1, 2), "published": True}},
    ),
    "smoothed-histogram": Preset(
        synthesize="smoothed_histogram", shares=_percent(total=2, measure=98), noise="laplace"
    ),
    "hierarchical-histogram": Preset(
        synthesize="hierarchical_histogram", shares=_percent(total=2, measure=98)
    ),
    "sorted-histogram": Preset(synthesize="sorted_histogram", shares=_percent(total=2, measure=98)),
    "noise-first": Preset(synthesize="noise_first", shares=_percent(total=2, measure=98)),
    "efpa": Preset(synthesize="efpa", shares=_percent(total=2, measure=98)),
    "p-hp": Preset(synthesize="p_hp", shares=_percent(total=2, measure=98)),
    "structure-first": Preset(synthesize="structure_first", shares=_percent(total=2, measure=98)),
    "multinomial-dirichlet": Preset(
        synthesize="multinomial_dirichlet", shares=_percent(total=2, measure=98), noise="laplace"
    ),
    "beta-binomial": Preset(
        synthesize="beta_binomial", shares=_percent(total=2, measure=98), noise="laplace"
    ),
    "modips": Preset(synthesize="modips", shares=_percent(total=2, measure=98)),
    "kde": Preset(synthesize="kde", shares=_percent(total=2, measure=98)),
    "noisy-ecdf": Preset(synthesize="noisy_ecdf", shares=_percent(measure=100)),
    "dpcube": Preset(synthesize="dpcube", shares=_percent(measure=100)),
    "dpcopula": Preset(synthesize="dpcopula", shares=_percent(measure=100)),
    "slomag": Preset(synthesize="slomag", shares=_percent(measure=100)),
    "sequential-regression": Preset(
        synthesize="sequential_regression", shares=_percent(measure=100)
    ),
    "average": Preset(synthesize="average", shares=_percent(total=2, measure=98)),
}
