"""`accounting` in the statement: how the receipts add up to the guarantee.

The receipts state what was done, with exact parameters. This section states the cost of each kind
of event, the sensitivity of each query, and the conversion of the total into (epsilon, delta). It
follows from currency, relation and receipts alone, so `verify` recomputes it. docs/statement.md
describes each step; tests/dp_core/bundle/recomputed.py follows it without this program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.cost.covered_choices import COVER
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.curves import MOST_CELLS, SMOOTHING
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.receipts import Receipt
from dp_core.kernel.privacy import Relation

SAMPLERS = (
    "Exact samplers of dp_release, at the version in `software`. Discrete Laplace and Gaussian"
    " noise: Canonne, Kamath & Steinke 2020, Algorithms 1 to 3. Choices: the exponential mechanism"
    " by rejection, and permute-and-flip. Records: whole numbers below sums of whole weights."
)
"""How noise is drawn."""
RANDOMNESS = (
    "The operating system's generator (os.urandom of Python; on Linux getrandom), read anew for"
    " every draw. No generator of the process is used, and no seed."
)
"""Where random bits come from."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Cost of one use of a mechanism.

    Attributes:
        cost: Formula by currency, in the parameters of the event; no key without a proven cost.
        theorem: Theorem and source.
        own_delta: Formula for the probability with which the cost does not hold; empty for none.
    """

    cost: Mapping[str, str]
    theorem: str
    own_delta: str = ""


MECHANISMS: Mapping[str, Mechanism] = {
    "discrete-laplace": Mechanism(
        {"pure": "l1_sensitivity / scale", "zcdp": "(l1_sensitivity / scale)^2 / 2"},
        "discrete Laplace noise: Ghosh, Roughgarden & Sundararajan 2012, section 2; as rho: Bun &"
        " Steinke 2016, Proposition 1.4",
    ),
    "discrete-gaussian": Mechanism(
        {
            "zcdp": "l2_sensitivity_squared / (2 scale^2)",
            "gaussian": f"l2_sensitivity_squared / (2 (scale^2 - {SMOOTHING}))",
            "mixed": f"l2_sensitivity_squared / (2 (scale^2 - {SMOOTHING}))",
        },
        "discrete Gaussian noise: Canonne, Kamath & Steinke 2020, Theorem 4; on the Gaussian curve:"
        " as continuous noise of a variance smaller by"
        f" {SMOOTHING}, followed by rounding that does not look at the data",
    ),
    "noisy-max": Mechanism(
        {
            "pure": "2 sensitivity / scale",
            "zcdp": "e^2 / 8 where noise is gumbel, e^2 / 2 otherwise, e = 2 sensitivity / scale",
            "mixed": (
                f"(1 + 1/{COVER}) e^2 / 8, e = 2 sensitivity / scale, noise gumbel; after it at"
                f" least {COVER} times as much of the total is left"
            ),
        },
        "exponential mechanism as the largest noisy score: McSherry & Talwar 2007, Theorem 6; as"
        " rho with Gumbel noise: Cesar & Rogers 2021; permute-and-flip: McKenna & Sheldon 2020; on"
        " the Gaussian curve: bounded range (Durfee & Rogers 2019) and convex order, proven in"
        " dp_core/kernel/cost/covered_choices.py",
    ),
    "stability-histogram": Mechanism(
        {"pure": "l1_sensitivity / scale", "zcdp": "(l1_sensitivity / scale)^2 / 2"},
        "counts of the observed cells above a threshold: Korolova et al. 2009; Bun, Nissim &"
        " Stemmer 2016; Vadhan 2016, Theorem 3.5; as rho: Bun & Steinke 2016, Lemma 8.8",
        own_delta=(
            "the larger of s(rows) and rows s(1), s(c) = a^(threshold - c) / (1 + a), a = exp(-1 /"
            " scale)"
        ),
    ),
    "perturbed-draws": Mechanism(
        {
            "pure": "rows draws ln(1 + 1/scale)",
            "zcdp": "rows^2 draws ln(1 + 1/scale)^2 / 2",
        },
        "draws of single codes by counts with virtual records: Park & Ghosh 2013",
    ),
    "polya-urn": Mechanism(
        {
            "pure": "rows ln(1 + records/scale)",
            "zcdp": "(rows ln(1 + records/scale))^2 / 2",
        },
        "draws from an urn that begins with the records and virtual ones: Blackwell & MacQueen"
        " 1973; Abowd & Vilhuber 2008",
    ),
}
"""Every mechanism that an event can name; `rows` is 1 if an event does not state it."""

_CELL = "one record is in one cell and adds 1 to it; a replaced one moves two cells by 1"
QUESTIONS: Mapping[str, str] = {
    "table": _CELL,
    "sparse-table": _CELL,
    "query-counts": (
        "one record is counted by a query or not, so it moves each count by 0 or 1; how many of the"
        " queries can count the same record follows from their columns and codes"
    ),
    "query-distance": "a count moves by 0 or 1, and so its distance from a public number by `grid`",
    "signed-queries": "a count moves by 0 or 1, and the entry by 0 or `factor`",
    "table-distance": (
        "one record moves one cell and so a sum of distances from public numbers by `grid` times"
        " the largest `weight`; a replaced one twice that"
    ),
    "table-checks": (
        "one record moves one cell of a table and so its sum of distances from public counts by 1;"
        " a replaced one moves two"
    ),
    "indif": (
        "the L1 distance of a two-way table from independence: 4 for a record added or removed, 6"
        " for one replaced, rounding included (Zhang et al. 2021, Lemma 1)"
    ),
    "r-score": (
        "the L1 distance of a table from independence: 4 for a record added or removed, 6 for one"
        " replaced, rounding included (Zhang et al. 2017, the score R)"
    ),
    "f-score": (
        "twice the number of records by which the best split falls short: 2 (Zhang et al. 2017, the"
        " score F)"
    ),
    "mutual-information": (
        "mutual information in bits times `grid`, for a public number of `rows` n: ((n + 1) log(n +"
        " 1) - (n - 1) log(n - 1) - 2 log 2) / (n log 2), with two codes (n log n - (n - 1) log(n -"
        " 1)) / (n log 2), rounded up (Zhang et al. 2017, Lemma 1)"
    ),
    "quantile": (
        "the weighted difference of the records below and above a cut: the larger of `part` and"
        " `of` - `part` for a record added or removed, `of` for one replaced"
    ),
    "cut-deviations": (
        "the L1 distance of a histogram from the nearest one that is constant between cuts: 1 for a"
        " record added or removed, 2 for one replaced"
    ),
    "cosine-tails": (
        "the norm of those orthonormal cosine coefficients of a histogram that are left out, in"
        " units of 2^-20: 2^20 + 2 for a record added or removed; for one replaced, the integer"
        " part of the square root of 2^41, plus 4"
    ),
    "cosine-sums": (
        "a record adds at most 2^20 units to each of `kept` cosine coefficients of a histogram, or"
        " to the number of missing values; a replaced one changes each coefficient but the first by"
        " at most twice that"
    ),
    "drawn-records": (
        "every record is drawn column by column, `sweeps` times, and one record of the file is in"
        " one combination of each column's table: records times columns draws can differ (twice"
        " that, at most `sweeps` times, where a record is replaced)"
    ),
    "drawn-cells": "every record that is drawn may fall where the files differ: `records` draws",
    "cell-counts": _CELL,
    "cell-sums": (
        "one record adds its position, at most `positions` - 1 in size, to one cell; a replaced one"
        " up to twice that"
    ),
    "limited-sums": (
        "one record adds its value, clipped to the `lows` and `highs` of its cell, minus the"
        " cell's `centres`, times its `factors`; R is the largest absolute value of that, and D the"
        " largest difference within a cell; a replaced record changes two cells by up to R each, or"
        " one by up to D"
    ),
    "products": (
        "one record adds the product of two positions, or moves a sum of products about the cells'"
        " means by less than 4 times the product of both ranges"
    ),
    "binned-counts": _CELL,
    "kernel-counts": (
        "one record adds the public `weights` to the bins near its own; the largest sum and the"
        " largest sum of squares follow from `weights` and `edges`, and are twice that for a"
        " replaced record"
    ),
    "box-counts": (
        "boxes of codes do not overlap, so one record is in at most one of them and adds 1 to its"
        " count; a replaced one changes at most two counts"
    ),
    "interaction": (
        "one record adds the products of its codes' coefficients: contrast j of a column's codes,"
        " counted from 0, is 1 below code j and -j at it, times the whole number next to K / sqrt(j"
        " (j + 1)), with K the larger of 32 times the column's size and 2^min(12, floor(32 / the"
        " number of columns)), or 4 sqrt(2) for two codes; the largest norm of a cell's"
        " coefficients, and of the difference of two cells', follow from `sizes`"
    ),
    "class-gradient": (
        "one record adds the product of its residual and its features, both of bounded size"
    ),
    "number-gradient": (
        "one record adds the product of its residual, at most 1 in size, and its features, and its"
        " squared residual"
    ),
    "class-minimiser": (
        "one record moves the minimum of a `ridge`-strongly convex loss by at most the size of its"
        " gradient over `ridge` (Chaudhuri, Monteleoni & Sarwate 2011), rounding included"
    ),
    "second-moments": (
        "one record adds a vector that is cut to a length of at most `length_limit`; a replaced one"
        " moves the sum by up to the root of 2 times that, rounding included"
    ),
    "scores": (
        "one record adds a vector that is cut to a length of at most `length_limit`; a replaced one"
        " moves the sum by up to twice that"
    ),
}
"""Sensitivity of each query; the receipt's `asks` has the parameters in backticks.

The proofs are in the docstrings of dp_core/kernel/questions."""

_SMOOTH = f"2 exp(-{2 * SMOOTHING} pi^2)"
_GAUSSIAN = (
    "mu^2 / 2",
    "the least epsilon with Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) <= (delta - own_delta)"
    f" exp(-t {MOST_CELLS}), mu = sqrt(2 total), e = epsilon - 2 t {MOST_CELLS}, t = {_SMOOTH}",
    "Gaussian mechanisms compose as one under a total fixed beforehand: Smith & Thakurta 2022;"
    " its curve: Balle & Wang 2018, Theorem 8; smoothing of discrete noise: Poisson summation",
)
_CONVERSIONS: Mapping[str, tuple[str, str, str]] = {
    "pure": (
        "epsilon",
        "epsilon = total; delta = own_delta",
        "basic composition: Dwork et al. 2006; adaptively: Rogers et al. 2016",
    ),
    "zcdp": (
        "rho",
        "epsilon = the least over alpha > 1 of alpha total + ln(1 - 1/alpha) - ln(alpha d) / (alpha"
        " - 1), d = delta - own_delta",
        "rho adds up: Bun & Steinke 2016, Lemma 1.7; conversion: Canonne, Kamath & Steinke 2020,"
        " Proposition 12",
    ),
    "gaussian": _GAUSSIAN,
    "mixed": (
        *_GAUSSIAN[:2],
        f"{_GAUSSIAN[2]}; private choices that leave {COVER} times their cost unspent compose"
        " likewise, by the convex order of likelihood ratios: Shaked & Shanthikumar 2007, Theorem"
        " 3.A.44",
    ),
}


_UNIT = (
    "the questions say what one record does; a unit of at most k = {k} records moves an entry, and"
    " the L1 norm of all entries, by at most k times as much, and their squared L2 norm by k^2"
    " times: files that differ by a unit are joined by k steps of a record (of either kind, where a"
    " unit is replaced)"
)


_SHARES = (
    "the questions say what one record does; here exact counts are in shares, of which every"
    " household has exactly S = {s}, each in one cell of every table; a household moves an entry,"
    " and the L1 norm of all entries, by at most S times as much as one record, and their squared"
    " L2 norm by at most S^2 times as much; sensitivities and scales of the events are in shares;"
    " counts and scales of the noisy tables are divided by S"
)


def accounting_json(
    currency: Currency, relation: Relation, receipts: Sequence[Receipt]
) -> dict[str, Any]:
    """Return the section `accounting`.

    Args:
        currency: Currency of the release, with the reserved total.
        relation: Which files are neighbours.
        receipts: All receipts of the release.
    """
    charges = [row for row in receipts if row.kind == "charge"]
    unit, formula, theorem = _CONVERSIONS[currency.kind]
    costs = [exact_fraction(row.body["cost"]) for row in charges]
    events = _events(charges)
    mechanisms = sorted({str(each["event"]["mechanism"]) for each in events})
    questions = sorted({str(each["asks"]) for each in events})
    return {
        "composition": {
            "unit": unit,
            "charged": str(sum(costs, Fraction(0))),
            "reserved": str(currency.limit),
            "own_delta": str(currency.own_delta),
            "conversion": formula,
            "theorem": theorem,
        },
        "mechanisms": {
            name: {
                "events": sum(
                    len(each["receipts"]) for each in events if each["event"]["mechanism"] == name
                ),
                "cost": MECHANISMS[name].cost[currency.kind],
                **({"own_delta": MECHANISMS[name].own_delta} if MECHANISMS[name].own_delta else {}),
                "theorem": MECHANISMS[name].theorem,
            }
            for name in mechanisms
        },
        **({"unit": _UNIT.format(k=relation.max_rows)} if relation.max_rows > 1 else {}),
        **({"unit": _SHARES.format(s=relation.shares)} if relation.shares > 1 else {}),
        "questions": {name: QUESTIONS[name] for name in questions},
        "noise": {"samplers": SAMPLERS, "randomness": RANDOMNESS},
        "events": events,
    }


def _events(charges: Sequence[Receipt]) -> list[dict[str, Any]]:
    """Return the events, identical ones grouped, in the order of their first receipts."""
    groups: dict[bytes, dict[str, Any]] = {}
    for row in charges:
        body: Mapping[str, Any] = row.body
        what = {
            "stage": body["stage"],
            "asks": body["asks"]["name"],
            "event": dict(body["event"]),
            "cost": body["cost"],
        }
        groups.setdefault(canonical_json(what), {**what, "receipts": []})["receipts"].append(
            row.number
        )
    return list(groups.values())
