"""The published test vectors: the program agrees with them, and so do sums that do not use it."""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import json
import math
import re
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, ZCDpEvent
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from dp_core.accounts.chain_audit import first_bad_link
from dp_core.accounts.guarantee import shown, theorem_of
from dp_core.accounts.plain_entries import read_receipt
from dp_core.bundle.statement.spent_budget import MECHANISMS
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.privacy import Relation
from tests.dp_core.bundle import recomputed
from tests.full import full
from tests.vectors import make

FOLDER = Path(make.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "wall.md"
GRID = {"value_discretization_interval": 1e-5, "use_connect_dots": True}


def cases(name):
    """Return the cases of a stored file."""
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))["cases"]


@functools.cache
def made_now():
    """Return what the program makes of every file, which takes a second."""
    return make.documents()


def named(name):
    """Return the cases of a stored file as parameters of a test."""
    return [
        pytest.param(case, id=f"{case['name']}, {case.get('neighbours', '')}")
        for case in cases(name)
    ]


def thirds(found):
    """Return cases, of which `make test` compares each third: the stored numbers do not change."""
    return [
        pytest.param(case, marks=[full] if number % 3 else []) for number, case in enumerate(found)
    ]


def assert_alike(stored, made, where):
    """Assert that two documents agree; numbers in texts to 8 digits, as processors differ."""
    if isinstance(stored, dict):
        assert stored.keys() == made.keys(), where
        for key, value in stored.items():
            assert_alike(value, made[key], f"{where}/{key}")
    elif isinstance(stored, list):
        assert len(stored) == len(made), where
        for number, (one, other) in enumerate(zip(stored, made, strict=True)):
            assert_alike(one, other, f"{where}/{number}")
    elif stored != made:
        assert isinstance(stored, str), where
        assert float(Fraction(stored)) == pytest.approx(float(Fraction(made)), rel=1e-8), where


@pytest.mark.parametrize(
    "name",
    [
        "events.json",
        "releases.json",
        "curves.json",
        "accounts.json",
        "documents.json",
        "codes.json",
    ],
)
def test_the_program_makes_the_stored_vectors(name):
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert_alike(stored, made_now()[name], name)


def test_every_file_is_stored_described_and_complete():
    stored = {path.name for path in FOLDER.glob("*.json")}
    page = PAGE.read_text(encoding="utf-8")
    assert stored == set(made_now())
    assert all(f"`{name}`" in page for name in stored)
    events = cases("events.json")
    assert {case["event"]["mechanism"] for case in events} == set(MECHANISMS)
    assert {case["neighbours"] for case in events} == {"add-remove", "replace-one"}
    assert {case["currency"] for case in cases("releases.json")} == set(make.KINDS)
    assert {case["composition"] for case in cases("accounts.json")} == {"basic", "zcdp"}


# -- costs


@pytest.mark.parametrize("case", named("events.json"))
def test_an_independent_reading_of_the_formulas_gives_the_same_costs(case):
    for kind, stated in case["cost"].items():
        if stated is None:
            with pytest.raises(AssertionError):
                recomputed.cost_of(case["event"], kind)
            continue
        cost, fails = recomputed.cost_of(case["event"], kind)
        # Logarithms and exponentials are rounded up.
        assert cost <= Fraction(stated) <= cost * (1 + Fraction(1, 10**15))
        assert fails <= Fraction(case["own_delta"]) <= fails * (1 + Fraction(1, 10**15))


def log_ratios(case):
    """Return logarithms of the likelihood ratios of a small release that comes near to its cost.

    Returns:
        The ratios, and the probability of outcomes that only one file has.
    """
    event = case["event"]
    scale, rows = float(Fraction(event["scale"])), event.get("rows", 1)
    match event["mechanism"]:
        case "discrete-laplace":
            z = np.arange(-2000, 2001)
            return (np.abs(z - event["l1_sensitivity"]) - np.abs(z)) / scale, 0.0
        case "noisy-max":
            change = event["sensitivity"]
            scores = [np.array([change] + [0] * 400) * sign for sign in (1, -1)]
            return np.log(np.divide(*[chances(each, scale, event["noise"]) for each in scores])), 0
        case "stability-histogram":
            # One cell of `rows` records alone, and one common cell that moves.
            z = np.arange(event["threshold"] - 200, event["threshold"] + 200)
            mass = np.exp(-np.abs(z) / scale) * math.tanh(1 / (2 * scale))
            spreads = (rows,), (1,) * rows
            tail = [sum(mass[z + c >= event["threshold"]].sum() for c in cs) for cs in spreads]
            moved = (np.abs(z - event["l1_sensitivity"]) - np.abs(z)) / scale
            return moved, max(tail)
        case "polya-urn":
            k = event["records"]
            urn = [math.lgamma(n + scale + k) - math.lgamma(n + scale) for n in (1, 0)]
            return np.array([urn[0] - urn[1], urn[1] - urn[0]]), 0.0
    raise AssertionError(event)


def chances(scores, scale, noise):
    """Return the chances of the largest score; permute-and-flip by its integral."""
    if noise == "gumbel":
        weights = np.exp((scores - scores.max()) / scale)
        return weights / weights.sum()
    # The others are alike: of n of them, each has the chance left over by the first one.
    heads, n = np.exp((scores - scores.max()) / scale), len(scores) - 1
    # The first one is reached after j others, each place alike, if all of these failed. If the
    # others are certain it is taken only where it comes before all of them.
    failed = (1 - heads[1]) ** np.arange(n + 1)
    first = heads[0] * np.mean(failed)
    return np.array([first, (1 - first) / n])


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in named("events.json")
        if case.values[0]["cost"]["pure"] and "draws by" not in case.values[0]["name"]
    ],
)
def test_exact_likelihood_ratios_are_below_the_pure_cost_and_come_near_to_it(case):
    ratios, tail = log_ratios(case)
    event = case["event"]
    epsilon = float(Fraction(case["cost"]["pure"]))
    assert np.abs(ratios).max() <= epsilon * (1 + 1e-12)
    # Group privacy of several rows is a bound that these outcomes do not reach.
    several = event["mechanism"] == "polya-urn" and event.get("rows", 1) > 1
    assert np.abs(ratios).max() >= epsilon * (0.25 if several else 0.9)
    assert tail == pytest.approx(float(Fraction(case["own_delta"])), rel=1e-9)


@pytest.mark.parametrize(
    "case", [case for case in named("events.json") if "draws by" in case.values[0]["name"]]
)
def test_draws_by_counts_reach_the_cost_of_a_row_and_stay_below_that_of_several(case):
    """By going through every sequence of draws of two codes."""
    event = case["event"]
    scale, rows = float(Fraction(event["scale"])), event.get("rows", 1)

    def logs(counts):
        total = sum(counts) + 2 * scale
        chance = [math.log((count + scale) / total) for count in counts]
        every = itertools.product(chance, repeat=event["draws"])
        return np.array([sum(each) for each in every])

    worst = np.abs(logs((rows, 0)) - logs((0, rows))).max()
    epsilon = float(Fraction(case["cost"]["pure"]))
    assert worst <= epsilon * (1 + 1e-12)
    assert worst >= epsilon * (1 - 1e-12 if rows == 1 else 0.8)


# -- epsilon at delta


def theirs_of(event, asks, neighbours, rows, shares=1):
    """Return dp-accounting's privacy loss distribution of an event, as widely as ours covers it."""
    scale = float(Fraction(event["scale"]))
    histogram = asks["name"] == "table" and rows == shares == 1
    copies = 2 if histogram and neighbours == "replace-one" else 1
    if event["mechanism"] == "discrete-laplace":
        l1 = event["l1_sensitivity"]
        if histogram:
            one = pld.from_discrete_laplace_mechanism(1 / scale, **GRID)
        elif l1 <= 2:
            one = pld.from_discrete_laplace_mechanism(1 / scale, sensitivity=l1, **GRID)
        else:
            pure = common.DifferentialPrivacyParameters(l1 / scale, 0)
            one = pld.from_privacy_parameters(pure, value_discretization_interval=1e-5)
        return one.self_compose(copies)
    assert event["mechanism"] == "discrete-gaussian"
    if histogram:
        return pld.from_discrete_gaussian_mechanism(scale, **GRID).self_compose(copies)
    # The vector's smoothed noise; without the smoothing it is the continuous mechanism.
    norm = math.sqrt(event["l2_sensitivity_squared"])
    return pld.from_gaussian_mechanism(math.sqrt(scale**2 - 3), sensitivity=norm, **GRID)


@pytest.mark.parametrize(
    "case", thirds([each for each in cases("events.json") if each["epsilon_at_delta"]])
)
def test_dp_accounting_finds_the_same_epsilon_of_an_event(case):
    theirs = theirs_of(
        *(case[key] for key in ("event", "asks", "neighbours", "max_rows")), case.get("shares", 1)
    )
    for delta, stated in case["epsilon_at_delta"].items():
        found = theirs.get_epsilon_for_delta(float(Fraction(delta)))
        assert float(stated) == pytest.approx(found, rel=1e-4, abs=2e-5)


@pytest.mark.parametrize(
    "case", thirds([each for each in cases("releases.json") if each["epsilon_at_delta"]])
)
def test_dp_accounting_finds_the_same_epsilon_of_a_release(case):
    theirs = pld.identity(1e-5)
    for charge in case["charges"]:
        one = theirs_of(charge["event"], charge["asks"], case["neighbours"], 1)
        theirs = theirs.compose(one.self_compose(charge["times"]))
    for delta, stated in case["epsilon_at_delta"].items():
        found = theirs.get_epsilon_for_delta(float(Fraction(delta)))
        assert float(stated) == pytest.approx(found, rel=3e-4)
        # The losses never know less than the currency's arithmetic, but for the smoothing.
        assert float(stated) <= float(case["implied"][delta]) * 1.001


@pytest.mark.parametrize("case", named("releases.json"))
def test_an_independent_reading_adds_up_and_converts_a_release_alike(case):
    kind = case["currency"]
    total = sum(
        charge["times"] * recomputed.cost_of(charge["event"], kind)[0] for charge in case["charges"]
    )
    assert total == Fraction(case["cost"])
    for delta, stated in case["implied"].items():
        found, _ = recomputed.convert(
            kind, Fraction(case["reserved"]), Fraction(delta), Fraction(0)
        )
        assert float(stated) == pytest.approx(found, rel=1e-7)


@pytest.mark.parametrize(
    "case", [case for case in named("releases.json") if "choices" in case.values[0]["name"]]
)
def test_choices_and_tables_composed_exactly_are_below_what_is_implied(case):
    """Each choice as randomised response with the losses h/2 and -h/2, the worst for one alone."""
    theirs = pld.identity(1e-5)
    for charge in case["charges"]:
        event = charge["event"]
        if event["mechanism"] == "noisy-max":
            h = float(recomputed.cost_of(event, "pure")[0])
            likely = 1 / (1 + math.exp(-h / 2))
            if event["noise"] == "exponential":
                likely = 1 / (1 + math.exp(-h))
            logs = [math.log(likely), math.log1p(-likely)]
            one = pld.from_two_probability_mass_functions(
                dict(enumerate(logs)),
                dict(enumerate(logs[::-1])),
                value_discretization_interval=1e-5,
            )
        else:
            one = theirs_of(event, charge["asks"], case["neighbours"], 1)
        theirs = theirs.compose(one.self_compose(charge["times"]))
    reserved = Fraction(case["reserved"]) / Fraction(case["cost"])
    for delta, stated in case["implied"].items():
        found = theirs.get_epsilon_for_delta(float(Fraction(delta)))
        assert found <= float(stated)
        assert found >= float(stated) * (0.8 if reserved == 1 else 0.6)


@pytest.mark.parametrize("case", thirds([each for each in cases("curves.json") if "total" in each]))
def test_dp_accounting_converts_a_total_alike(case):
    delta, total = float(Fraction(case["delta"])), float(Fraction(case["total"]))
    orders = 1 + np.geomspace(1e-2, 1e5, 20_000)
    accountant = RdpAccountant(orders)
    accountant.compose(ComposedDpEvent([ZCDpEvent(total)]))
    assert float(case["zcdp_epsilon"]) == pytest.approx(accountant.get_epsilon(delta), rel=1e-5)
    # Steps of the size that the answer needs: the number of losses grows with epsilon.
    step = 1e-5 * max(1.0, float(case["gaussian_epsilon"]))
    gaussian = pld.from_gaussian_mechanism(
        1, sensitivity=math.sqrt(2 * total), **{**GRID, "value_discretization_interval": step}
    )
    found = gaussian.get_epsilon_for_delta(delta)
    # Slack for the smoothing of 2^31 cells: 6.2e-8 of epsilon.
    assert float(case["gaussian_epsilon"]) == pytest.approx(found, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("case", named("accounts.json"))
def test_the_sums_of_an_account_are_sums(case):
    for part in (0, 1):
        summed = sum(each["times"] * Fraction(each["promised"][part]) for each in case["releases"])
        assert summed == Fraction(case["used"][part])
    within = all(
        Fraction(u) <= Fraction(m) for u, m in zip(case["used"], case["limit"], strict=True)
    )
    assert case["fits"] is within
    for each in case["releases"]:
        if case["composition"] == "basic":
            assert each["promised"] == [each["epsilon"], each["delta"]]
            continue
        kind, limit = each["currency"]["kind"], Fraction(each["currency"]["limit"])
        assert Fraction(each["promised"][0]) == (limit**2 / 2 if kind == "pure" else limit)
    if case["composition"] == "zcdp":
        left = Fraction(case["delta"]) - Fraction(case["own_delta"])
        found, _ = recomputed.convert("zcdp", Fraction(case["used"][0]), left, Fraction(0))
        assert float(case["epsilon_of_used"]) == pytest.approx(found, rel=1e-7)


# -- receipts and claims


@pytest.mark.parametrize("case", named("receipts.json"))
def test_the_claims_follow_from_the_receipts(case):
    """Chain, sums and conversions by the independent reading; losses by dp-accounting."""
    rows, claims = case["receipts"], case["claims"]
    recomputed.check_chain(rows)
    assert first_bad_link([read_receipt(row) for row in rows]) is None
    assert rows[-1]["hash"] == claims["head"]
    reserve = rows[0]["body"]
    kind, limit = reserve["currency"]["kind"], Fraction(reserve["currency"]["limit"])
    charges = [row["body"] for row in rows if row["kind"] == "charge"]
    spent = Fraction(0)
    for charge in charges:
        cost = recomputed.cost_of(charge["event"], kind)[0]
        spent += Fraction(charge["cost"])
        assert cost <= Fraction(charge["cost"])
        if charge["event"]["mechanism"] == "noisy-max" and kind == "mixed":
            assert limit - spent >= 8 * cost
    assert Fraction(claims["charged"]) == Fraction(rows[-1]["body"]["spent"]) == spent <= limit
    enforced = Fraction(claims["enforced"]["epsilon"]), Fraction(claims["enforced"]["delta"])
    assert Currency(kind, limit).implies(*enforced)
    assert recomputed.convert(kind, limit, enforced[1], Fraction(0))[0] <= enforced[0] + 1e-9

    for claim in (claims["tightest"], claims["also"]):
        if claim is None:
            continue
        epsilon, delta = Fraction(claim["epsilon"]), Fraction(claim["delta"])
        if claim["theorem"] == theorem_of(Currency(kind, limit)):
            assert recomputed.convert(kind, limit, delta, Fraction(0))[0] <= epsilon * (1 + 1e-8)
            continue
        assert case["fixed_beforehand"]
        theirs = pld.identity(1e-5)
        for charge in charges:
            one = theirs_of(charge["event"], charge["asks"], reserve["neighbours"], 1)
            theirs = theirs.compose(one)
        found = theirs.get_epsilon_for_delta(float(delta))
        assert float(epsilon) == pytest.approx(found, rel=1e-4)
        asked = [(event_from_json(charge["event"]), charge["asks"]) for charge in charges]
        relation = Relation(reserve["neighbours"])
        assert shown(asked, relation, epsilon, delta)
        assert not shown(asked, relation, epsilon * Fraction(9999, 10000), delta)


def test_the_receipts_that_the_program_makes_lead_to_the_same_claims():
    for stored, made in zip(
        cases("receipts.json"), made_now()["receipts.json"]["cases"], strict=True
    ):
        for name in ("enforced", "tightest", "also", "charged"):
            assert_alike(stored["claims"][name], made["claims"][name], f"{stored['name']}/{name}")


# -- documents and codes


def test_the_hash_of_a_document_is_that_of_its_sorted_json():
    for case in cases("documents.json"):
        if "sha256" in case:
            text = json.dumps(
                case["document"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
            )
            assert hashlib.sha256(text.encode()).hexdigest() == case["sha256"]
            unit = case["document"]["unit"]
            assert unit["word"] in case["protects"]
            assert str(unit.get("identified_by", "")) in case["protects"]
    refused = [case for case in cases("documents.json") if "refused" in case]
    assert len(refused) == len(make.REFUSED)


def value_of(rule, text):
    """Return a number of the rule's unit; None if the text is none."""
    kind = rule["kind"]
    if kind == "date":
        try:
            return datetime.strptime(text, rule["format"]).date().toordinal()
        except ValueError:
            return None
    if kind == "parts":
        found = re.search(rule["parts"]["pattern"], text)
        weights = rule["parts"]["weights"]
        return found and sum(weight * int(found[name]) for name, weight in weights.items())
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?(e[0-9]+)?", text):
        return None
    # A real number is read as the nearest that 64 bits store, as files store it.
    return Fraction(float(text)) if kind == "number" else Fraction(text)


@pytest.mark.parametrize("case", named("codes.json"))
def test_an_independent_reading_of_the_rule_gives_the_same_codes(case):
    rule = case["rule"]
    for text, code in zip(case["texts"], case["codes"], strict=True):
        missing = rule["codes"] - 1 if rule["missing"] == "level" else None
        if rule["kind"] == "levels":
            levels = {each: place for place, own in enumerate(rule["levels"]) for each in own}
            assert code == levels.get(text.strip(), missing), text
            continue
        value = None if text in rule["missing_values"] else value_of(rule, text)
        if text in rule["missing_values"]:
            assert code == missing, text
        elif value is None:
            assert code is None, text
        else:
            low, high = Fraction(rule["low"]), Fraction(rule["high"])
            if not low <= value <= high and rule["out_of_range"] == "missing":
                assert code == missing, text
                continue
            edges = [Fraction(edge) for edge in rule["edges"]]
            place = bisect.bisect_right(edges, min(max(value, low), high)) - 1
            assert code == min(place, len(edges) - 2), text
