"""Presets: a method's name in the spec, and what it sets for each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dp_core.schema.privacy import Noise, Stage


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


PRESETS: Mapping[str, Preset] = {
    "auto": Preset(
        select="auto",
        reconstruct="auto",
        shares={
            "one_way": Fraction(1, 10),
            "select": Fraction(1, 20),
            "measure": Fraction(17, 20),
        },
    ),
    "independent": Preset(
        select="one_way",
        reconstruct="independent",
        shares={"measure": Fraction(1)},
    ),
    "fdh": Preset(
        select="full",
        reconstruct="dense",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
    ),
    "fixed": Preset(
        select="fixed",
        reconstruct="gum",
        shares={"one_way": Fraction(1, 10), "measure": Fraction(9, 10)},
    ),
    "privsyn": Preset(
        select="densemarg",
        reconstruct="gum",
        shares={
            "one_way": Fraction(1, 10),
            "select": Fraction(1, 20),
            "measure": Fraction(17, 20),
        },
    ),
    "cipher": Preset(
        select="ways",
        reconstruct="cipher",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
        options={"select": {"allocation": "equal"}},
    ),
    "mwem": Preset(
        select="mwem",
        reconstruct="multiplicative_weights",
        shares={
            "total": Fraction(1, 50),
            "select": Fraction(49, 100),
            "measure": Fraction(49, 100),
        },
    ),
    "fourier": Preset(
        select="fourier",
        reconstruct="multiplicative_weights",
        shares={"measure": Fraction(1)},
    ),
    "mst": Preset(
        select="mst",
        reconstruct="pgm",
        shares={"one_way": Fraction(3, 10), "select": Fraction(1, 5), "measure": Fraction(1, 2)},
    ),
    "aim": Preset(
        select="aim",
        reconstruct="pgm",
        shares={"select": Fraction(1, 10), "measure": Fraction(9, 10)},
    ),
    "mwem-pgm": Preset(
        select="mwem_pgm",
        reconstruct="pgm",
        shares={"select": Fraction(1, 5), "measure": Fraction(4, 5)},
    ),
    "privbayes": Preset(
        select="privbayes",
        reconstruct="bayes_network",
        shares={
            "total": Fraction(1, 100),
            "select": Fraction(1, 10),
            "measure": Fraction(89, 100),
        },
    ),
    "dualquery": Preset(
        select="dualquery",
        reconstruct="records",
        shares={"one_way": Fraction(1, 5), "select": Fraction(4, 5)},
    ),
    "sba": Preset(
        select="sba",
        reconstruct="sparse",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
    ),
    "sbhg": Preset(
        select="sbhg",
        reconstruct="gibbs",
        shares={"total": Fraction(1, 50), "select": Fraction(1, 20), "measure": Fraction(93, 100)},
        noise="laplace",
    ),
    "pegs": Preset(
        select="pegs",
        reconstruct="records",
        shares={"total": Fraction(1, 50), "select": Fraction(1, 10), "measure": Fraction(22, 25)},
    ),
    "laplace-sanitizer": Preset(
        synthesize="laplace_sanitizer",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
    ),
    "perturbed-histogram": Preset(
        synthesize="laplace_sanitizer",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
        options={
            "synthesize": {
                "categories": Fraction(1, 2),
                "negative": "zero",
                "draw": "multinomial",
            }
        },
    ),
    "smoothed-histogram": Preset(
        synthesize="smoothed_histogram",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
    ),
    "multinomial-dirichlet": Preset(
        synthesize="multinomial_dirichlet",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
    ),
    "beta-binomial": Preset(
        synthesize="beta_binomial",
        shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)},
        noise="laplace",
    ),
    "modips": Preset(
        synthesize="modips", shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)}
    ),
    "slomag": Preset(synthesize="slomag", shares={"measure": Fraction(1)}),
    "sequential-regression": Preset(
        synthesize="sequential_regression", shares={"measure": Fraction(1)}
    ),
    "average": Preset(
        synthesize="average", shares={"total": Fraction(1, 50), "measure": Fraction(49, 50)}
    ),
}
