"""How small an error of the scale of the noise an audit with canaries finds.

Usage:
    python benchmarks/canaries.py
    python benchmarks/canaries.py --runs 10

Prints the power of each audit of `tests/canaries.py`, computed; how many canaries an audit
needs by the epsilon of a release; and what can be said of Gaussian noise without assuming that the
noise of different cells is independent. With `--runs`, also audits releases.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy import stats

from dp_core.plan.currency_choice import choose_currency
from tests.canaries import CASES, Case, Finding, audit, counts_power, noise_power, power
from tests.guesses import Moves, any_mechanism, best_accuracy, largest_moves, law

FALSE_ALARM = 1e-9
FACTORS = (0.8, 0.9, 0.95, 0.98)
WANTED = 0.9


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="releases to audit of each case")
    runs = parser.parse_args().runs
    rng = np.random.default_rng()
    print_titles()
    made = {}
    for name, case in CASES.items():
        made[name] = [audit(case, rng=rng) for _ in range(runs)]
        print_power(name, made[name][0])
    print_runs(made)
    print_canaries()
    print_without_independence(made["auto"][0].moves)


def print_titles() -> None:
    """Print what the columns of `print_power` are."""
    print(
        f"Probability of finding a fault at a false-alarm rate of {FALSE_ALARM:g}: by the noise, if"
        " this part of the scale is drawn;\nby the guesses, if it is, or if a canary moves answers"
        " twice as far as it may;\nby the counts, if the rows of canaries are counted twice"
    )
    titles = "".join(f"{f'noise {factor:g}':>10}" for factor in FACTORS)
    print(
        f"{'audit':<36}{'canaries':>9}{'entries':>9}{titles}{'found':>8}{'guess .9':>10}"
        f"{'found':>8}{'twice':>8}{'counts':>8}"
    )


def print_power(name: str, found: Finding) -> None:
    """Print the power of an audit, and the smallest errors that it finds."""
    case = CASES[name]
    powers = "".join(
        f"{noise_power(case, found, FALSE_ALARM, factor=factor):>10.3f}" for factor in FACTORS
    )
    entries = sum(each.entries for each in found.vectors)
    print(
        f"{name:<36}{case.file.canaries:>9,}{entries:>9,}{powers}"
        f"{smallest_error(case, found, FALSE_ALARM, noise_power):>8.1%}"
        f"{power(case, found, FALSE_ALARM, factor=0.9):>10.3f}"
        f"{smallest_error(case, found, FALSE_ALARM, power):>8.1%}"
        f"{power(case, found, FALSE_ALARM, moved=2):>8.3f}"
        f"{counts_power(found, FALSE_ALARM):>8.3f}",
        flush=True,
    )


def smallest_error(case: Case, found: Finding, level: float, how: Callable[..., float]) -> float:
    """Return the least error of the scale that is found with a probability of .9; at most .5.

    Args:
        case: The audit.
        found: What it found, with the moves and the noise of the canaries.
        level: Probability of a false alarm.
        how: `power` by the guesses, or `noise_power`.
    """
    low, high = 0.0, 0.5
    for _ in range(8):
        middle = (low + high) / 2
        if how(case, found, level, factor=1 - middle) >= WANTED:
            high = middle
        else:
            low = middle
    return high


def print_runs(made: dict[str, list[Finding]]) -> None:
    """Print what the audits of releases without a fault found."""
    print("\nReleases without a fault")
    print(
        f"{'audit':<36}{'releases':>9}{'right':>8}{'allowed':>9}{'least p':>9}{'noise':>9}"
        f"{'counts':>9}{'reach':>7}{'share':>7}"
    )
    for name, found in made.items():
        right = sum(each.correct for each in found) / sum(each.guesses for each in found)
        case = CASES[name]
        allowed = (
            best_accuracy(found[0].strongest)
            if case.claim == "charges"
            else 1 / (1 + np.exp(-float(case.epsilon)))
        )
        least = min(each.p_value for each in found)
        noise = min(each.noise for each in found)
        counts = min(each.counts for each in found)
        reach = max(each.reach for each in found)
        share = min(each.share for each in found)
        print(
            f"{name:<36}{len(found):>9}{right:>8.4f}{allowed:>9.4f}{least:>9.2g}{noise:>9.2g}"
            f"{counts:>9.2g}{reach:>7.3f}{share:>7.1%}"
        )


def print_canaries() -> None:
    """Print how many canaries find a scale 10 % too small with a probability of .9."""
    print(
        f"\nCanaries of one table that find a scale 10 % too small with a probability of {WANTED}"
    )
    levels = (1e-9, 0.05)
    print(f"{'epsilon':>8}" + "".join(f"{f'Laplace, {each:g}':>18}" for each in levels), end="")
    print("".join(f"{f'Gaussian, {each:g}':>18}" for each in levels))
    for epsilon in map(Fraction, ("1/2", "1", "2", "4", "8", "16")):
        row = []
        for noise, delta in (("laplace", Fraction(0)), ("gaussian", Fraction("1e-9"))):
            currency = choose_currency(
                epsilon, delta, noise=noise, statistics=[(Fraction(1), 1, 1, 1.0)]
            )
            event = currency.noise_event(currency.limit, l1=1, l2_squared=1)
            moves = (largest_moves(event),)
            claimed = best_accuracy(moves)
            faulty = law(moves, factor=0.9).accuracy
            row += [canaries_needed(claimed, faulty, level) for level in levels]
        print(f"{float(epsilon):>8g}" + "".join(f"{each:>18,}" for each in row))


def canaries_needed(claimed: float, faulty: float, level: float) -> int:
    """Return the number of guesses of an accuracy that refute another; two figures."""

    def enough(guesses: int) -> bool:
        least = stats.binom.isf(level, guesses, claimed) + 1
        return bool(stats.binom.sf(least - 1, guesses, faulty) >= WANTED)

    number = float(least_number(enough))
    digits = 10 ** (len(str(int(number))) - 2)
    return int(-(-number // digits) * digits)


def least_number(enough: Callable[[int], bool]) -> int:
    """Return about the least number that is enough."""
    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def print_without_independence(moves: tuple[Moves, ...]) -> None:
    """Print what can be said of a Gaussian release if nothing is assumed of the noise."""
    case = CASES["auto"]
    found = law(moves)
    faulty = law(moves, factor=0.9).accuracy
    as_sure = np.log(faulty / (1 - faulty))
    together = float(found.masses[np.abs(found.scores) >= as_sure].sum())
    bound, chance, right = max(
        (lower_bound(case, chance, accuracy), chance, accuracy)
        for chance, accuracy in thresholds(moves)
    )
    laplace = CASES["sba"]
    accuracy = 1 / (1 + np.exp(-0.98 * float(laplace.epsilon)))
    print(
        f"""
Without independence: `auto` with Gaussian noise, epsilon {float(case.epsilon):g}
  A mechanism with the same privacy loss for each canary, whose size is drawn once for all,
  guesses at least as well as with noise 10 % too small with a probability of {together:.2f}.
  By (epsilon, delta) alone, with the best threshold ({chance:.1%} of the coins are guessed,
  {right:.2%} rightly), epsilon is at least {bound:.2f} at a confidence of 95 %.
  `sba` with Laplace noise, epsilon {float(laplace.epsilon):g}: at least\
 {lower_bound(laplace, 1.0, accuracy):.2f}."""
    )


def thresholds(moves: tuple[Moves, ...]) -> list[tuple[float, float]]:
    """Return, by threshold of the score, the part of the coins that is guessed and the accuracy."""
    found = law(moves)
    rows = []
    for least in np.unique(np.abs(found.scores)):
        asked = np.abs(found.scores) >= max(least, 1e-9)
        chance = float(found.masses[asked].sum())
        if chance > 1e-3:
            right = float(found.masses[asked & (found.scores > 0)].sum())
            rows.append((chance, right / chance))
    return rows


def lower_bound(case: Case, chance: float, accuracy: float) -> float:
    """Return the largest epsilon that the expected guesses refute at a level of .05."""
    guesses = int(case.file.canaries * chance)
    correct = int(guesses * accuracy)
    low, high = 0.0, 30.0
    for _ in range(40):
        middle = (low + high) / 2
        p = any_mechanism(case.file.canaries, guesses, correct, middle, float(case.delta))
        low, high = (middle, high) if p <= 0.05 else (low, middle)
    return low


if __name__ == "__main__":
    main()
