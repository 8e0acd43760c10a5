"""Recomputes a release's guarantee from release.json and marginals.parquet, without this program.

It imports nothing of ours: whoever distrusts `dp-release verify` can read this page, or write their
own after docs/statement.md. Run it as a script on the folder of a release.

It follows the receipts: every charge is recomputed from its event, every event is held against what
one record can do to what was asked, the charges are added up, and the total that was reserved is
converted. It returns the epsilon and delta that follow.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

getcontext().prec = 50


def recompute(folder: Path) -> tuple[float, Fraction]:
    """Return the (epsilon, delta) that the receipts of a release imply."""
    document = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    receipts, guarantee = document["ledger"]["receipts"], document["guarantee"]
    check_chain(receipts)
    reserve = receipts[0]["body"]
    kind = reserve["currency"]["kind"]
    limit, aside = (
        Fraction(reserve["currency"]["limit"]),
        Fraction(reserve["currency"]["own_delta"]),
    )
    # A household moves counts in shares by its shares, of one kind of steps, like rows of a person.
    rows, shares = guarantee.get("max_rows", 1), guarantee.get("shares", 1)
    if shares > 1:
        assert guarantee["unit"] == "household"
        assert shares == math.lcm(*range(1, guarantee["max_members"] + 1)), "shares of a household"
    charges = [
        row["body"] | {"number": row["number"]} for row in receipts if row["kind"] == "charge"
    ]
    total = own_delta = Fraction(0)
    for charge in charges:
        stated = sensitivity_of(charge["event"])
        needed = sensitivity_needed(charge, guarantee["neighbours"], rows, shares)
        assert stated >= needed, f"receipt {charge['number']}: sensitivity {stated} < {needed}"
        cost, fails = cost_of(charge["event"], kind)
        # Logarithms are no fractions: what was charged may be above by what was rounded up.
        assert cost <= Fraction(charge["cost"]) * (1 + Fraction(1, 10**15)), charge["number"]
        total, own_delta = total + Fraction(charge["cost"]), own_delta + fails
        if kind == "mixed" and charge["event"]["mechanism"] == "noisy-max":
            assert limit - total >= 8 * cost, f"receipt {charge['number']} leaves too little"
    assert total <= limit, "more was charged than was reserved"
    assert own_delta <= aside * (1 + Fraction(1, 10**15)), "thresholds fail more often"
    check_noise(folder, {charge["number"]: charge["event"] for charge in charges}, shares)
    return convert(kind, limit, Fraction(reserve["delta"]), aside)


def check_chain(receipts: list[dict[str, Any]]) -> None:
    """Raise unless every receipt has the hash of its content, and names the one before it."""
    last = "0" * 64
    for row in receipts:
        content = {key: value for key, value in row.items() if key != "hash"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert row["previous"] == last, row["number"]
        assert row["hash"] == hashlib.sha256(text.encode()).hexdigest(), row["number"]
        last = row["hash"]


def cost_of(event: dict[str, Any], kind: str) -> tuple[Fraction, Fraction]:
    """Return what an event costs in a currency, and the probability with which it does not hold."""
    scale, rows = Fraction(event["scale"]), event.get("rows", 1)
    fails = Fraction(0)
    match event["mechanism"]:
        case "discrete-gaussian":
            squared = event["l2_sensitivity_squared"]
            assert kind in ("zcdp", "gaussian", "mixed")
            return squared / (2 * (scale**2 - (0 if kind == "zcdp" else 2))), fails
        case "discrete-laplace":
            epsilon = event["l1_sensitivity"] / scale
        case "stability-histogram":
            epsilon = event["l1_sensitivity"] / scale
            a = (Decimal(-1) / to_decimal(scale)).exp()

            def kept(c: int) -> Fraction:
                return Fraction(a ** (event["threshold"] - c) / (1 + a))

            fails = max(kept(rows), rows * kept(1))
        case "noisy-max":
            epsilon = 2 * event["sensitivity"] / scale
            if kind in ("zcdp", "mixed") and event["noise"] == "gumbel":
                return epsilon**2 / 8 * (1 if kind == "zcdp" else Fraction(9, 8)), fails
        case "perturbed-draws":
            assert kind in ("pure", "zcdp")
            each = Fraction((1 + 1 / to_decimal(scale)).ln())
            draws = event["draws"]
            return (rows * draws * each if kind == "pure" else rows**2 * draws * each**2 / 2), fails
        case "polya-urn":
            epsilon = rows * Fraction((1 + event["records"] / to_decimal(scale)).ln())
        case other:
            raise AssertionError(f"no cost is known of {other}")
    assert kind in ("pure", "zcdp")
    return (epsilon if kind == "pure" else epsilon**2 / 2), fails


def sensitivity_of(event: dict[str, Any]) -> int:
    """Return the sensitivity that an event states, in the norm of its noise."""
    names = ("l1_sensitivity", "l2_sensitivity_squared", "sensitivity", "draws", "records")
    return next(event[name] for name in names if name in event)


def of_cosines(asks: dict[str, Any], replaced: bool, power: int) -> int:
    """Return how far a record moves the rounded cosines of its bin, to a power.

    A record that is replaced moves them at least as far as from an end of the range to any bin.
    """
    bins, kept, grid = len(asks["edges"]) - 1, asks["kept"], 2**20

    def row(place: int) -> list[int]:
        angles = (math.pi * j * (2 * place + 1) / (2 * bins) for j in range(kept))
        return [round(grid * math.cos(angle)) for angle in angles]

    size = [sum(abs(each) ** power for each in row(place)) for place in range(bins)]
    # A record without a value is counted in an entry of its own.
    missing = grid**power if asks["edges"][-1] < asks["size"] else 0
    if not replaced:
        return max(1, missing, *size)
    apart = [
        sum(abs(one - other) ** power for one, other in zip(row(end), row(place), strict=True))
        for end in (0, bins - 1)
        for place in range(bins)
    ]
    return max(1, *apart, missing and missing + max(size))


def sensitivity_needed(charge: dict[str, Any], neighbours: str, rows: int, shares: int) -> int:
    """Return how far one unit moves what was asked, in the norm of the event's noise."""
    asks, gaussian = charge["asks"], charge["event"]["mechanism"] == "discrete-gaussian"
    steps = [neighbours] if rows == 1 or neighbours == "add-remove" else ["add-remove", neighbours]
    found = 0
    for step in steps:
        replaced = step == "replace-one"
        match asks["name"]:
            case "table" | "sparse-table" | "cell-counts" | "binned-counts" | "box-counts":
                one = 2 if replaced else 1
            case "kernel-counts":
                power, grid = 2 if gaussian else 1, len(asks["edges"]) - 1
                near = enumerate(asks["weights"])
                reach = [(distance, weight**power) for distance, weight in near]
                one = (2 if replaced else 1) * max(
                    sum(
                        each * sum(0 <= place < grid for place in {b - d, b + d})
                        for d, each in reach
                    )
                    for b in range(grid)
                )
            case "query-counts":
                one = of_queries(asks["queries"], replaced)
            case "query-distance":
                one = asks["grid"]
            case "signed-queries":
                one = asks["factor"]
            case "table-distance":
                change = asks["grid"] * asks["weight"] * (2 if replaced else 1)
                # A choice compares entries; noise is added to all of them at once.
                noisy = charge["event"]["mechanism"] != "noisy-max"
                one = change
                if noisy:
                    one = asks["length"] * (change**2 if gaussian else change)
            case "indif":
                # All pairs of columns at once: each entry moves by as much.
                change = 6 if replaced else 4
                one = asks["length"] * (change**2 if gaussian else change)
            case "r-score":
                one = 6 if replaced else 4
            case "f-score":
                one = 2
            case "mutual-information":
                n = asks["rows"]
                assert replaced, "it has a sensitivity only where the number of rows is public"
                if asks["binary"]:
                    bits = n * math.log(n) - (n - 1) * math.log(n - 1)
                else:
                    bits = (n + 1) * math.log(n + 1) - (n - 1) * math.log(n - 1) - 2 * math.log(2)
                one = math.ceil(asks["grid"] * bits / (n * math.log(2)))
            case "quantile":
                one = asks["of"] if replaced else max(asks["part"], asks["of"] - asks["part"])
            case "cut-deviations":
                one = 2 if replaced else 1
            case "cosine-tails":
                one = math.isqrt(2 * 4**20) + 4 if replaced else 2**20 + 2
            case "cosine-sums":
                one = of_cosines(asks, replaced, 2 if gaussian else 1)
            case "cell-sums":
                one = (asks["positions"] - 1) * (2 if replaced else 1)
                one = one**2 if gaussian else one
            case "limited-sums":
                names = ("lows", "highs", "centres", "factors")
                cells = [*zip(*(asks[name] for name in names), strict=True)]
                most = max(1, *(f * max(abs(a - c), abs(b - c)) for a, b, c, f in cells))
                span = max(most, *(f * (b - a) for a, b, _, f in cells))
                two = len(cells) > 1
                one = most
                if replaced:
                    one = max(2 * most if two else 0, span)
                if gaussian:
                    one = max(2 * most**2 if two else 0, span**2) if replaced else most**2
            case "drawn-records":
                draws = asks["records"] * len(asks["tables"])
                return draws * min(asks["sweeps"], 2 if replaced else 1)
            case "drawn-cells":
                return int(asks["records"])
            case other:
                raise AssertionError(f"this script does not know what one record does to {other}")
        found = max(found, one)
    parts = rows * shares  # one of the two is 1
    return found * (parts**2 if gaussian else parts)


def of_queries(queries: dict[str, Any], replaced: bool) -> int:
    """Return how many counts one record can move, each by 1.

    Cells of one table exclude one another, so a record is in one; replaced, it leaves one and
    enters one. Equal queries move together.
    """
    if queries["name"] == "parities":
        return len(queries["cliques"])  # never more
    groups: dict[tuple[str, ...], dict[tuple[tuple[str, int], ...], int]] = {}
    for number, *codes in queries["cells"]:
        cell = tuple(sorted(zip(queries["cliques"][number], codes, strict=True)))
        group = groups.setdefault(tuple(name for name, _ in cell), {})
        group[cell] = group.get(cell, 0) + 1
    return sum(
        sum(sorted(group.values())[-2 if replaced and columns else -1 :])
        if columns or not replaced
        else 0
        for columns, group in groups.items()
    )


def convert(kind: str, total: Fraction, delta: Fraction, aside: Fraction) -> tuple[float, Fraction]:
    """Return the (epsilon, delta) of a total, `aside` of the delta being the thresholds'."""
    if kind == "pure":
        return float(total), aside
    left = float(delta - aside)
    if kind == "zcdp":
        rho = float(total)

        def epsilon(alpha: float) -> float:
            gained = math.log(alpha * left) / (alpha - 1)
            return alpha * rho + math.log1p(-1 / alpha) - gained

        return least(epsilon, 1 + 1e-9, 1e9), delta
    mu = math.sqrt(2 * float(total))
    slack = 2 * math.exp(-4 * math.pi**2) * 2**31

    def delta_at(epsilon: float) -> float:
        e = epsilon - 2 * slack
        second = phi(-mu / 2 - e / mu)
        return phi(mu / 2 - e / mu) - (math.exp(e + math.log(second)) if second else 0.0)

    low, high = 2 * slack, 1.0
    while delta_at(high) > left * math.exp(-slack):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > left * math.exp(-slack) else (low, middle)
    return high, delta


def check_noise(folder: Path, events: dict[int, dict[str, Any]], shares: int) -> None:
    """Raise unless every noisy table has the noise that its receipt paid for."""
    import pyarrow.parquet as pq

    columns = ["noise", "scale", "threshold", "grant"]
    for row in pq.read_table(folder / "marginals.parquet", columns=columns).to_pylist():
        event = events[row["grant"]]
        gaussian = event["mechanism"] == "discrete-gaussian"
        assert row["noise"] == ("gaussian" if gaussian else "laplace"), row
        assert row["scale"] == float(Fraction(event["scale"]) / shares), row
        assert row["threshold"] == event.get("threshold", 0), row


def least(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the least value of a function with one minimum, searched on a logarithmic scale."""
    a, b = math.log(low - 1), math.log(high - 1)
    for _ in range(300):
        left, right = a + (b - a) / 3, b - (b - a) / 3
        if function(1 + math.exp(left)) < function(1 + math.exp(right)):
            b = right
        else:
            a = left
    return function(1 + math.exp((a + b) / 2))


def phi(x: float) -> float:
    """Return the normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2


def to_decimal(value: Fraction) -> Decimal:
    """Return a fraction to 50 digits."""
    return Decimal(value.numerator) / Decimal(value.denominator)


if __name__ == "__main__":
    found, failing = recompute(Path(sys.argv[1]))
    print(f"epsilon {found:.9g} at delta {float(failing):.3g}")  # noqa: T201
