"""The combining rule for each way of making the sets, and the rule in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from dp_core.inference.combine import Rule


@dataclass(frozen=True, slots=True)
class Wording:
    """A combining rule in words.

    Attributes:
        variance: Formula of the variance T.
        degrees_of_freedom: Formula of the degrees of freedom.
        in_words: How the sets were made.
        covers: Errors that the intervals cover, and errors that they do not cover.
        source: Reference.
    """

    variance: str
    degrees_of_freedom: str
    in_words: str
    covers: str
    source: str


_SPLIT_DF = "(m - 1) (1 + m W/B)^2; normal where B = 0"
WORDING: dict[Rule, Wording] = {
    "split": Wording(
        variance="T = W + B/m",
        degrees_of_freedom=_SPLIT_DF,
        in_words="every set has its own noisy measurement, at 1/m of the budget",
        covers=(
            "Sampling, synthesis and privacy noise. A bias of the model is not covered: a relation"
            " that no measured table holds is in no set."
        ),
        source="Reiter (2003); Bowen and Liu (2020), equations 9-11",
    ),
    "posterior": Wording(
        variance="T = W + (1 + 1/m) B",
        degrees_of_freedom="(m - 1) (1 + W/((1 + 1/m) B))^2; normal where B = 0",
        in_words=(
            "the sets are draws from the posterior distribution of the file's tables, given one"
            " noisy measurement at the full budget and a prior learned from all pairs of columns"
        ),
        covers=(
            "Sampling, synthesis and privacy noise. Relations of a pair that no noisy table holds"
            " are covered on average over such pairs, not for each. A relation of three columns"
            " that no noisy table holds is not covered."
        ),
        source="Rubin (1987)",
    ),
    "shared": Wording(
        variance="T = W + B/m",
        degrees_of_freedom=_SPLIT_DF,
        in_words="all sets come from one noisy measurement and one model",
        covers=(
            "Sampling and synthesis only. The noise that the sets share does not show between them:"
            " T is too small and intervals are too narrow. Add the noise's own variance where the"
            " estimate can be traced to a noisy table (marginals.parquet gives it)."
        ),
        source="Reiter (2003), for independent sets, which these are not",
    ),
}


COVERAGE: Mapping[Rule, tuple[float, float]] = {
    "posterior": (0.82, 1.0),
    "split": (0.897, 0.946),
    "shared": (0.687, 0.946),
}
"""Smallest and largest measured coverage of 95 % intervals from sets, over the designs of
docs/accuracy.md: posterior from 5 sets, `shared` from 20 sets, `split` from 5."""
BY_DESIGN = "T^2 / (W^2/d + (T - W)^2/(m - 1)), where the sample design has d degrees of freedom"
"""Degrees of freedom of every rule if W follows from a sample design."""
BY_FILE = (
    "T^2 / (W^2/c + (T - W)^2/(m - 1)), where the same analysis of the file has c degrees of"
    " freedom"
)
"""Degrees of freedom of every rule if those of the analysis of the file are limited. `WORDING` has
the formulas for infinite c."""


def with_known_errors(words: Wording, by_differences: bool) -> Wording:
    """Return a rule to which the variance A of known errors is added.

    Args:
        words: The rule.
        by_differences: Whether it also has the differences between the sets, B.
    """
    if by_differences:
        formula = words.degrees_of_freedom
        degrees = formula.replace("(T - W)", "(T - W - A)")
        return replace(
            words,
            variance=f"{words.variance} + A",
            degrees_of_freedom=degrees if "T" in degrees else f"{formula}; times (T/(T - A))^2",
            in_words=f"{words.in_words}; A is the variance by bins",
        )
    return replace(
        words,
        variance="T = (1 + 1/m) W + A",
        degrees_of_freedom=(
            "c (T/(T - A))^2, where the same analysis of the file, or the sample design, has c"
            " degrees of freedom; normal if c is infinite"
        ),
        in_words=(
            f"{words.in_words}. A is the variance by the noise of the tables, the prior and bins"
        ),
    )


NO_SETS = (
    "This release has no sets: it consists of noisy tables, from which `dp-release query` answers"
    " with margins of error."
)
"""What is said instead of a rule about a release of tables only."""


DECLARED = Wording(
    variance="T = K V K + (1 - K) U (1 - K) + 2 K (1 - K) W",
    degrees_of_freedom="those of the same analysis of the file",
    in_words=(
        "the release measured noisy sums for this formula. V is the variance of the estimate from"
        " them, U that of the estimate from the sets, and W the sampling error that both have. K is"
        " the weight of the sums, by the precision of the noise"
    ),
    covers=(
        "Sampling and privacy noise. The effect of the length limit on records is estimated from"
        " the sets."
    ),
    source="Rubin (1987) for V and U, each weighted by the inverse of its variance",
)
"""The rule for a declared analysis that the measured sums answer, together with the sets."""


def rule_of(mode: str, sets: int) -> Rule:
    """Return the rule for sets made in a mode; a single set does not show its noise.

    >>> rule_of("split", 5), rule_of("posterior", 5), rule_of("split", 1)
    ('split', 'posterior', 'shared')
    """
    if sets == 1:
        return "shared"
    if mode in ("split", "posterior", "shared"):
        return cast("Rule", mode)
    raise ValueError(f"There is no mode {mode!r}.")


Origin: TypeAlias = Literal["modelled", "pulled", "drawn", "chosen", "cut", "unknown"]
"""How the records of a set were made: from a model of noisy numbers (`modelled`); from a model that
is strongly biased towards a uniform table (`pulled`); as private draws of records (`drawn`); by
private choices (`chosen`); from only those cells of a table that were above a threshold (`cut`); or
by a method that this program does not have (`unknown`)."""
ORIGINS: tuple[Origin, ...] = ("modelled", "pulled", "drawn", "chosen", "cut")
"""Every origin but `unknown`."""

OFF: Mapping[Origin, str] = {
    "pulled": (
        "their model is drawn towards an even table, the more so the smaller a count is beside its"
        " noise, and no difference between the sets shows it."
    ),
    "drawn": (
        "their records themselves are private draws, of which a public part is drawn evenly, so"
        " that every estimate is pulled towards that of an even table, and no difference between"
        " the sets shows it."
    ),
    "chosen": (
        "their records are the best answers to questions that were drawn privately, so that an"
        " estimate is off by whatever those questions did not ask, and no difference between the"
        " sets shows it."
    ),
    "cut": (
        "cells whose noisy count is below a threshold are lost, so that every estimate is pulled"
        " towards what is frequent, and no difference between the sets shows it."
    ),
    "unknown": "how their records were made is not known to this program.",
}
"""Why no interval has its stated coverage, in any mode, unless the records are `modelled`."""


def covered_errors(rule: Rule, origin: Origin) -> str:
    """Return the errors that the intervals cover, and those that they do not cover."""
    return WORDING[rule].covers if origin == "modelled" else f"Nothing: {OFF[origin]}"


def inference_statement(mode: str, sets: int, *, origin: Origin = "modelled") -> dict[str, object]:
    """Return what the statement of a release says about combining its sets.

    Args:
        mode: How the sets were made.
        sets: Number of sets; without any there is no rule.
        origin: Where their records come from; `modelled` by default.
    """
    if not sets:
        return {"rule": None, "sets": 0, "covers": NO_SETS}
    rule = rule_of(mode, sets)
    words = WORDING[rule]
    return {
        "rule": rule,
        "sets": sets,
        "includes_noise": rule != "shared" and origin == "modelled",
        "estimate": "q = mean of the m estimates",
        "within": "W = mean of the m estimated variances",
        "between": "B = sample variance of the m estimates",
        "variance": words.variance,
        "degrees_of_freedom": words.degrees_of_freedom,
        "covers": covered_errors(rule, origin),
        "source": words.source,
    }
