"""The ledger's commands: what people decide, what they see of it, and every mistake they make."""

import hashlib
import io
import os
import re
import stat
import sys
from fractions import Fraction

import pytest

from dp_core.accounts.signatures import make_key
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tasks.run.home import home_id, home_key
from tests.both_writers import both_writers
from tests.flows.cli.test_cli import assert_refused

WHO = ("--by", "Ada", "--reason", "a test")
ZCDP = Terms("zcdp", Fraction(2), Fraction("1e-5"))


@pytest.fixture
def project(gaussian_project):
    return gaussian_project


def entries(project):
    return len(project.ledger().entries())


def plan_of(project, **changes):
    return make_plan(load_spec(project.write_spec(**changes)))


def pay(project, *, settle="finished", **changes):
    """Reserve, charge in one event and end a release, without touching data."""
    plan = plan_of(project, **changes)
    ledger = project.ledger()
    with both_writers(ledger, plan.spec.release, home_id(project.home)) as writer:
        held = writer.reserve(plan)
        # Each account has data of its own.
        data = hashlib.sha256(plan.spec.account.encode()).hexdigest()
        writer.bind_input(held, data, home_key(project.home, ledger))
        cost = plan.costs["measure"]
        event = plan.currency.noise_event(cost, l1=1, l2_squared=1)
        writer.charge(held, "tables", [Step("measure", "sex", cost, event, (2,))])
        if settle:
            writer.commit(held, "tables", "0" * 64)
            writer.settle(held, settle)
    return plan


# -- opening, raising, restating, closing


def test_an_account_is_opened_with_all_its_terms(project, command):
    project.open_account("city", terms=ZCDP)
    words = ("--epsilon", "1", "--delta", "1e-6", "--composition", "zcdp", "--own-delta", "1e-7")
    words += ("--owner", "Grace", "--per", "quarter", "--period-epsilon", "0.5", "--carry-over")
    words += ("--within", "city", "--approved-plans-only", "--core-questions-only")
    answer = command("ledger", "open", "ward", *words, *WHO, "--json").json
    assert answer["total"]["epsilon_exact"] == "1"
    assert answer["total"]["own_delta_exact"] == "1/10000000"
    assert (answer["composition"], answer["owner"], answer["within"]) == ("zcdp", "Grace", "city")
    assert answer["approved_plans_only"] is answer["core_questions_only"] is True
    calendar = answer["calendar"]
    assert (calendar["period"], calendar["epsilon"], calendar["carry_over"]) == (
        "quarter",
        0.5,
        True,
    )
    assert calendar["allowed"] == calendar["left"]
    assert calendar["used"]["rho"] == 0
    assert answer["left_today"]["rho"] == calendar["left"]["rho"] < answer["left"]["rho"]
    assert command("ledger", "show", "city", "--json").json["accounts_within"] == ["ward"]

    text = command("ledger", "show", "ward").out
    assert "ward: add-remove, unit row, composition zcdp" in text
    assert "Owner    Grace; opened" in text
    assert "Within   account city" in text
    assert "Period   epsilon 0.5, own delta 1e-07 per quarter" in text
    assert "carries over" in text
    assert command("ledger", "verify").code == 0


@pytest.mark.usefixtures("home")
def test_a_period_of_a_basic_account_states_its_delta(command):
    words = ("open", "b", "--epsilon", "1", "--delta", "1e-6", "--per", "year", *WHO)
    said = "needs --period-delta: what one year may use of the delta 1e-06, or 0 for pure releases"
    assert_refused(command("ledger", *words, "--period-epsilon", "1/2"), 2, said)
    pure = ("open", "b", "--epsilon", "1", "--per", "year", "--period-epsilon", "1/2", *WHO)
    assert command("ledger", *pure, "--json").json["calendar"]["delta"] == 0


MISTAKES = [
    (["open", "a", "--epsilon", "1,0", *WHO], "with a decimal point"),
    (["open", "a", "--epsilon", "1", "--delta", "1", *WHO], "--delta must be below 1"),
    (["open", "a", "--epsilon", "1", "--reason", "x"], "Missing option '--by'"),
    (["open", "a", "--epsilon", "1", "--composition", "zcdp", *WHO], "needs a --delta above 0"),
    (["open", "a", "--epsilon", "1", "--owner", " ", *WHO], "--owner is empty"),
    (
        ["open", "a", "--epsilon", "1", "--per", "quater", "--period-epsilon", "1", *WHO],
        "--per 'quater' is not known. Did you mean 'quarter'?",
    ),
    (["open", "a", "--epsilon", "1", "--per", "year", *WHO], "--per year needs --period-epsilon"),
    (
        ["open", "a", "--epsilon", "1", "--period-epsilon", "1", *WHO],
        "--period-epsilon needs --per",
    ),
    (["open", "a", "--epsilon", "1", "--carry-over", *WHO], "--carry-over needs --per"),
    (
        ["open", "a", "--epsilon", "1", "--per", "year", "--period-epsilon", "2", *WHO],
        "--period-epsilon 2 is above the account's whole epsilon of 1",
    ),
    (["open", "a", "--epsilon", "1", "--within", "twon", *WHO], "Did you mean 'town'?"),
    (["raise", "town", *WHO], "give --epsilon, --delta"),
    (["raise", "town", "--period-epsilon", "1", *WHO], "has no allowance per period to raise"),
    (["restate", "town", "--composition", "bascic", *WHO], "Did you mean 'basic'?"),
    (["restate", "town", *WHO], "Missing option '--composition'"),
    (
        ["restate", "town", "--composition", "zcdp", "--own-delta", "1e-5", *WHO],
        "--own-delta must be below --delta",
    ),
    # Typed in Latin-1: the bytes that are no UTF-8 arrive as lone surrogates.
    (
        ["close", "town", "--by", "Ada", "--reason", "caf\udce9"],
        "--reason 'caf\\udce9' is not UTF-8",
    ),
    (["close", "\udce9t\udce9", *WHO], "is not UTF-8 text"),
    (["approve", "abc123", *WHO], "'abc123' is neither the hash of a plan (64 hex digits"),
    (["approve", "a" * 64, "--by", "Ada"], "Missing option '--reason'"),
    (["withdraw", "a" * 64, *WHO], "is not approved"),
    (["show", "twon"], "Did you mean 'town'?"),
    (["charges", "town", "--release", "nope"], "No release 'nope' is in this ledger"),
    (["forecast", "nowhere.yaml"], "nowhere.yaml"),
    (["verify", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
    (["export", "nowhere/at/all.jsonl"], "could not be written"),
    (["keygen", "nowhere/at/all", *WHO], "could not be written"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES)
def test_a_mistake_is_one_sentence_and_writes_nothing(project, command, tmp_path, words, said):
    before = sorted(tmp_path.rglob("*"))
    assert_refused(command("ledger", *words), 2, said)
    assert project.kinds() == ["ledger", "open"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_restated_account_counts_its_history_again(project, command):
    pay(project)
    answer = command("ledger", "restate", "town", "--composition", "zcdp", *WHO, "--json").json
    assert answer["before"]["spent"]["epsilon"] == 1
    assert answer["after"]["spent"]["rho"] > 0
    assert answer["after"]["spent"]["epsilon"] < 1
    assert answer["after"]["left"]["rho"] > 0
    assert "must not be decided by looking at released values" in answer["note"]
    text = command("ledger", "restate", "town", "--composition", "basic", *WHO).out
    assert "composition zcdp before, basic now" in text
    for word in ("total", "spent", "left", "then delta counts twice"):
        assert word in text
    assert "restated as basic by Ada" in command("ledger", "show", "town").out
    assert command("ledger", "verify").code == 0


REFUSALS = {
    "unknown account": ({"account": "twon"}, "no-account", "Did you mean 'town'?"),
    "epsilon": ({"privacy": "{epsilon: 5, delta: 1e-6}"}, "budget-used-up", "has 2 left of 2"),
    "delta": ({"privacy": "{epsilon: 1, delta: 1e-4}"}, "budget-used-up", "needs delta"),
    "relation": (
        {"privacy": "{epsilon: 1, delta: 1e-6, neighbours: replace-one}"},
        "other-relation",
        "protects under add-remove",
    ),
    "unit": ({"account": "persons"}, "other-relation", "protects one person"),
    "closed": ({"account": "over"}, "account-closed", "is closed"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_plan_shows_the_plan_and_then_what_the_ledger_would_refuse(project, command, case):
    project.open_account("persons", unit="person")
    project.open_account("over")
    command("ledger", "close", "over", *WHO)
    changes, row, words = REFUSALS[case]
    spec, count = project.write_spec(**changes), entries(project)
    text = command("plan", spec)
    assert text.code == 3
    assert text.out.index("Plan ") < text.out.index(words)
    assert ": enough for" not in text.out
    answer = command("plan", spec, "--json")
    assert (answer.code, answer.json["refused"]["runbook"]) == (3, row)
    assert words in answer.json["refused"]["error"]
    assert answer.json["plan_hash"] in text.out
    run = command("run", spec, "--out", project.out)
    assert_refused(run, 3, answer.json["refused"]["error"])
    assert entries(project) == count


def test_a_plan_that_was_paid_for_is_not_refused(project, command):
    pay(project, settle="", privacy="{epsilon: 2, delta: 1e-6}")
    answer = command("plan", project.spec, "--json")
    assert (answer.code, answer.json["refused"]) == (0, None)
    assert answer.json["more_such_releases"] == 0
    spec = project.write_spec(release="next", privacy="{epsilon: 2, delta: 1e-6}")
    answer = command("plan", spec, "--json")
    assert (answer.code, answer.json["refused"]["runbook"]) == (3, "budget-used-up")


# -- approval


@pytest.fixture
def guarded(project):
    """A project whose account runs approved plans only."""
    terms = Terms("basic", Fraction(2), Fraction("1e-5"))
    project.open_account("guarded", terms=terms, owner="Grace", approved_only=True)
    project.write_spec(account="guarded")
    return project


def test_a_plan_waits_for_approval_and_nothing_is_written(guarded, command, tmp_path):
    digest = plan_of(guarded, account="guarded").hash
    count, before = entries(guarded), sorted(tmp_path.rglob("*"))
    planned = command("plan", guarded.spec)
    assert f"Plan {digest}" in planned.out
    assert "Grace" in planned.out
    assert command("plan", guarded.spec, "--json").json["approval"]["waits_for"] == ["Grace"]
    answer = command("run", guarded.spec, "--out", guarded.out)
    assert_refused(answer, 3, digest, "Grace")
    assert entries(guarded) == count
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("quick")
def test_an_approved_plan_runs_and_another_does_not(guarded, command):
    answer = command("ledger", "approve", guarded.spec, *WHO, "--json").json
    assert answer["plan_hash"] == plan_of(guarded, account="guarded").hash
    assert (answer["release"], answer["account"], answer["epsilon"]) == ("town", "guarded", 1)
    assert answer["demanded"] is True
    again = command("ledger", "approve", answer["plan_hash"].upper(), *WHO)
    assert_refused(again, 2, "is approved already")
    assert "Approval by Ada on" in command("plan", guarded.spec).out
    other = guarded.write_spec(account="guarded", privacy="{epsilon: 0.5, delta: 1e-6}")
    assert_refused(command("run", other, "--out", guarded.out), 3, "ledger approve")
    guarded.write_spec(account="guarded")
    assert command("run", guarded.spec, "--out", guarded.out).code == 0


def test_an_approval_is_withdrawn(guarded, command):
    digest = plan_of(guarded, account="guarded").hash
    assert f"{digest} is approved." in command("ledger", "approve", digest, *WHO).out
    text = command("ledger", "withdraw", guarded.spec, *WHO).out
    assert f"{digest} is no longer approved." in text
    assert "Release  town from account 'guarded'" in text
    assert_refused(command("ledger", "withdraw", digest, *WHO), 2, "is not approved")
    assert_refused(command("run", guarded.spec, "--out", guarded.out), 3, "Grace")


# -- keys, export, verify


@pytest.mark.usefixtures("project")
def test_a_new_key_signs_from_then_on(command, tmp_path, monkeypatch):
    key = tmp_path / "signing"
    answer = command("ledger", "keygen", key, *WHO)
    assert answer.code == 0
    assert f"export DP_RELEASE_SIGNING_KEY={key}" in answer.out
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    unsigned = command("ledger", "close", "town", *WHO)
    assert_refused(unsigned, 2, "set DP_RELEASE_SIGNING_KEY")
    monkeypatch.setenv("DP_RELEASE_SIGNING_KEY", str(key))
    assert command("ledger", "close", "town", *WHO).code == 0
    found = command("ledger", "verify", "--json").json
    assert (found["signed"], len(found["keys"])) == (2, 1)
    assert found["keys"][0] in answer.out


def test_a_key_in_the_home_is_found_and_can_be_replaced(project, command, tmp_path, monkeypatch):
    first = command("ledger", "keygen", project.home / "signing.key", *WHO, "--json").json
    assert first["found_by_itself"] is True
    second = tmp_path / "second"
    words = ("ledger", "keygen", second, "--replaces", first["fingerprint"], *WHO, "--json")
    answer = command(*words).json
    assert answer["signing"] == [answer["fingerprint"]]
    assert_refused(command("ledger", "close", "town", *WHO), 2, answer["fingerprint"])
    monkeypatch.setenv("DP_RELEASE_SIGNING_KEY", str(second))
    assert command("ledger", "close", "town", *WHO).code == 0
    assert command("ledger", "verify", "--public-key", f"{second}.pub").code == 0


@pytest.mark.usefixtures("project")
def test_a_key_that_the_ledger_refuses_is_not_left(command, tmp_path):
    command("ledger", "keygen", tmp_path / "first", *WHO)
    # This process has no key of the ledger, so it cannot make another one known.
    answer = command("ledger", "keygen", tmp_path / "second", *WHO)
    assert_refused(answer, 2, "set DP_RELEASE_SIGNING_KEY")
    assert not (tmp_path / "second").exists()
    assert not (tmp_path / "second.pub").exists()
    assert (tmp_path / "first").exists()
    answer = command("ledger", "keygen", tmp_path / "third", "--replaces", "abcd", *WHO)
    assert_refused(answer, 2, "--replaces 'abcd'", "Known:")


@pytest.mark.parametrize("taken", ["key", "key.pub"])
def test_a_key_is_never_written_over(project, command, tmp_path, taken):
    (tmp_path / taken).write_text("mine")
    answer = command("ledger", "keygen", tmp_path / "key", *WHO)
    assert_refused(answer, 2, str(tmp_path / taken))
    assert (tmp_path / taken).read_text() == "mine"
    assert project.kinds() == ["ledger", "open"]


def test_an_export_verifies_without_ledger_or_home(project, command, tmp_path, monkeypatch):
    pay(project)
    command("ledger", "keygen", tmp_path / "key", *WHO)
    file = tmp_path / "ledger.jsonl"
    made = command("ledger", "export", file, "--json").json
    assert made["entries"] == entries(project)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert_refused(command("ledger", "export", file), 2, "exists already", "choose a new name")

    nowhere = tmp_path / "nowhere"
    monkeypatch.setenv("DP_RELEASE_HOME", str(nowhere))
    pub = tmp_path / "key.pub"
    found = command("ledger", "verify", file, "--public-key", pub, "--json").json
    assert (found["passed"], found["entries"], found["head"]) == (
        True,
        made["entries"],
        made["head"],
    )
    assert "The export verifies" in command("ledger", "verify", file).out
    pub.write_text("0" * 64 + "\n")
    wrong = command("ledger", "verify", file, "--public-key", pub)
    assert_refused(wrong, 5, "not signed by the key that was given")
    assert not nowhere.exists()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_another_home_checks_all_but_the_seals(project, command, tmp_path, monkeypatch):
    pay(project)
    assert command("ledger", "verify", "--json").json["seals"] == "checked"
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{project.home / 'ledger.db'}")
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "auditor"))
    assert command("ledger", "verify", "--json").json["seals"] == "not checked"
    assert "Seals    not checked" in command("ledger", "verify").out
    assert not (tmp_path / "auditor").exists()


def test_looking_makes_neither_ledger_nor_key(command, project, tmp_path, monkeypatch):
    command("ledger", "verify")
    assert not (project.home / "input.key").exists()
    nowhere = tmp_path / "nowhere"
    monkeypatch.setenv("DP_RELEASE_HOME", str(nowhere))
    for words in (
        ["ledger", "show"],
        ["ledger", "show", "town"],
        ["ledger", "charges", "town"],
        ["ledger", "verify"],
        ["ledger", "export", tmp_path / "out"],
        ["ledger", "forecast", project.spec],
        ["ledger", "approve", "a" * 64, *WHO],
        ["ledger", "raise", "town", "--epsilon", "9", *WHO],
        ["ledger", "adopt", *WHO],
        ["status"],
        ["status", "town"],
        ["abandon", "town"],
    ):
        assert_refused(command(*words), 2, "There is no ledger in", "DP_RELEASE_HOME")
    assert not nowhere.exists()
    assert not (tmp_path / "out").exists()


def test_a_zcdp_account_names_the_noise_that_it_has_room_for(project, command, tmp_path):
    """For these few columns Laplace noise is smaller, but it takes rho 1/2 at epsilon 1."""
    auto = "synthesize: {sets: 2}\nmeasure: {noise: auto}\n"
    total = ("--delta", "1e-5", "--composition", "zcdp", *WHO)
    for name, epsilon in (("less", "1/2"), ("one", "1"), ("many", "10")):
        command("ledger", "open", name, "--epsilon", epsilon, *total)

    spec = project.write_spec(auto, account="one")
    answer = command("plan", spec, "--json").json
    assert (answer["currency"], answer["more_such_releases"]) == ("pure", 0)
    assert answer["more_with_gaussian_noise"] == 1
    assert "enough for 1 release" in command("plan", spec).out
    count = entries(project)
    run = ("run", spec, "--out", tmp_path / "out")
    assert_refused(command(*run), 3, "With `measure: {noise: gaussian}` it fits as it is.")
    assert entries(project) == count
    stated = auto.replace("auto", "gaussian")
    answer = command("plan", project.write_spec(stated, account="one"), "--json").json
    assert (answer["currency"], answer["more_such_releases"]) == ("gaussian", 1)
    assert "more_with_gaussian_noise" not in answer

    project.write_spec(auto, account="less")
    refused = command(*run)
    assert_refused(refused, 3, "with `measure: {noise: gaussian}` it is")
    largest = re.search(r"gaussian}` it is (\S+)\. \(", refused.err)[1]
    privacy = f"{{epsilon: {largest}, delta: 1e-6}}"
    answer = command("plan", project.write_spec(stated, account="less", privacy=privacy), "--json")
    assert answer.json["more_such_releases"] == 1

    answer = command("plan", project.write_spec(auto, account="many"), "--json")
    assert answer.json["more_such_releases"] == 3
    assert answer.json["more_with_gaussian_noise"] > 50


# -- forecast


def test_forecast_counts_as_the_ledger_would(project, command):
    (project.folder / "town.csv").unlink()
    count = entries(project)
    answer = command("ledger", "forecast", project.spec, "--json").json
    now, other = answer["forecasts"]
    assert (now["composition"], now["now"], now["releases"]) == ("basic", True, 2)
    assert now["stopped_by"] == "the total of account 'town'"
    assert (other["composition"], other["now"]) == ("zcdp", False)
    assert other["releases"] >= 3
    assert answer["every"] is None
    assert entries(project) == count

    pay(project)
    after = command("ledger", "forecast", project.spec, "--json").json["forecasts"]
    assert after[0]["releases"] == 1
    assert after[1]["releases"] <= other["releases"]
    command("ledger", "restate", "town", "--composition", "zcdp", *WHO)
    restated = command("ledger", "forecast", project.spec, "--json").json["forecasts"]
    assert [(row["composition"], row["releases"]) for row in restated] == [
        ("zcdp", after[1]["releases"]),
        ("basic", 1),
    ]


# -- both views, charges


def test_a_zcdp_account_shows_the_tightest_statement_as_long_as_it_holds(project, command):
    project.open_account("z", terms=ZCDP)
    shown = command("ledger", "show", "z", "--json").json
    assert shown["tightest"] == shown["statement"]
    pay(project, account="z")
    shown = command("ledger", "show", "z", "--json").json
    assert shown["statement"]["epsilon"] == 2
    assert 1.8 < shown["tightest"]["epsilon"] < 1.9
    assert "Gaussian" in shown["tightest"]["theorem"]
    text = command("ledger", "show", "z").out
    assert "Enforced epsilon 2, delta 1e-05, by zero-concentrated composition" in text
    assert "Tightest epsilon 1.8" in text
    # A total that was raised was not fixed before what it states.
    command("ledger", "raise", "z", "--epsilon", "3", *WHO)
    shown = command("ledger", "show", "z", "--json").json
    assert shown["tightest"] == shown["statement"]


def test_accounts_are_listed_with_what_they_have(project, command):
    project.open_account("ward", within="town")
    pay(project, account="ward")
    rows = command("ledger", "show").out.splitlines()
    assert rows[3].split() == ["town", "2", "0", "1", "1", "1", "basic"]
    assert rows[4].split() == ["ward,", "within", "town", "2", "0", "1", "1", "1", "basic"]


def test_charges_are_those_of_one_release_or_of_all_accounts_within(project, command):
    project.open_account("ward", within="town")
    project.open_account("other")
    pay(project, account="town", release="one", privacy="{epsilon: 1/2, delta: 1e-6}")
    pay(project, account="ward", release="two", privacy="{epsilon: 1/2, delta: 1e-6}")
    everything = command("ledger", "charges", "town", "--json").json
    assert [(charge["release"], charge["account"]) for charge in everything] == [
        ("one", "town"),
        ("two", "ward"),
    ]
    only = command("ledger", "charges", "town", "--release", "two", "--json").json
    assert only == everything[1:]
    assert [(charge["currency"], charge["unit"]) for charge in everything] == [
        ("gaussian", "mu²/2")
    ] * 2
    assert "mu²/2" in command("ledger", "charges", "town", "--release", "two").out
    text = command("ledger", "charges", "town", "--release", "one").out
    assert "1 charge to release 'one' in account 'town'." in text
    assert "gaussian" in text
    answer = command("ledger", "charges", "other", "--release", "two")
    assert_refused(answer, 2, "is paid from account 'other'; 'ward' pays for it")


# -- who holds a release, and giving it up


def test_status_tells_who_holds_a_release(project, command):
    plan = plan_of(project)
    with project.ledger().lease("town", home_id(project.home)) as writer:
        writer.reserve(plan)
        holder = command("status", "town", "--json").json["holder"]
        assert holder["lease_ends"] > holder["since"]
        text = command("status", "town").out
        assert text.startswith("town: at work\n")
        assert f"process {holder['process']} on {holder['host']}" in text
    answer = command("status", "town", "--json").json
    assert answer["holder"] is None
    assert answer["state"] == "unfinished: resume or abandon it"


def test_a_release_whose_folder_is_gone_is_abandoned_and_counts_in_full(project, command):
    pay(project, settle="")
    answer = command("abandon", "town", "--json").json
    # Nobody knows whether its result was stored and seen.
    assert (answer["spent"]["epsilon"], answer["files"]) == (1.0, "gone")
    assert_refused(command("abandon", "town"), 2, "is abandoned already")
    assert command("ledger", "verify").code == 0


def test_a_release_of_another_home_is_abandoned_and_its_files_are_named(
    project, command, tmp_path, monkeypatch
):
    from tasks.support.run_folder import RunFolder

    pay(project, settle="")
    link = project.ledger().reservation("town").link
    RunFolder(project.home, "town", link).begin(spec=project.spec, out=project.out)
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{project.home / 'ledger.db'}")
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "second"))
    text = command("abandon", "town").out
    assert "epsilon 1 stays spent" in text
    assert "runs/town/confidential" in text


def test_a_release_that_was_charged_nothing_gives_all_back(project, command):
    plan = plan_of(project)
    with project.ledger().lease("town", home_id(project.home)) as writer:
        writer.reserve(plan)
    answer = command("abandon", "town", "--json").json
    assert (answer["spent"]["epsilon"], answer["left"]["epsilon"]) == (0, 2)
    assert answer["files"] == "none"


# -- help


def test_every_ledger_command_answers_machines_and_its_help_fits(command):
    from flows.cli.commands.ledger_commands import ledger

    for name, found in ledger.commands.items():
        assert "--json" in {option for param in found.params for option in param.opts}
        text = command("ledger", name, "--help").out
        assert text.startswith(f"Usage: dp-release ledger {name}")
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "..." not in text


def test_a_bundle_verifies_against_the_key_of_its_ledger(project, command, tmp_path):
    key, other = tmp_path / "key.pem", tmp_path / "other.pem"
    assert command("ledger", "keygen", key, "--by", "Ada", "--reason", "audit").code == 0
    make_key(other)
    os.environ["DP_RELEASE_SIGNING_KEY"] = str(key)
    assert command("run", project.spec, "--out", project.out).code == 0

    good = command("verify", project.out, "--public-key", f"{key}.pub")
    assert good.code == 0
    assert "signed by the key that was given" in good.out
    assert "compare this fingerprint" in command("verify", project.out).out
    bad = command("verify", project.out, "--public-key", f"{other}.pub")
    assert bad.code == 1
    assert "not signed by the key that was given" in bad.out
    none = command("verify", project.out, "--public-key", key)
    assert (none.code, "holds no public key" in none.err) == (2, True)


@pytest.mark.parametrize("end", ["finished", "abandoned"])
def test_a_plan_says_that_its_name_is_used(project, command, end):
    pay(project, settle=end)
    answer = command("plan", project.spec)
    assert answer.code == 3
    said = f"The name 'town' is used: that release is {end}. A release is made once; choose a new"
    assert f"The ledger would refuse this release. {said} name" in " ".join(answer.out.split())
    assert "enough for" not in answer.out
    planned = command("plan", project.spec, "--json").json
    assert (planned["refused"]["runbook"], planned["more_such_releases"]) == ("name-used", 1)
    project.write_spec(release="another")
    assert command("plan", project.spec).code == 0


def test_the_plan_of_a_release_under_way_is_not_refused_and_a_changed_one_is(project, command):
    pay(project, settle="")
    assert command("plan", project.spec).code == 0
    project.write_spec("synthesize: {sets: 9}\n")
    answer = command("plan", project.spec, "--json")
    assert (answer.code, answer.json["refused"]["runbook"]) == (3, "plan-changed")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("open", "new", "--epsilon", "1000000"), "epsilon of 1e+06"),
        (("raise", "town", "--epsilon", "100.5"), "epsilon of 100.5"),
        (("open", "new", "--epsilon", "1", "--delta", "0.5"), "delta of 0.5"),
        (("raise", "town", "--delta", "0.002"), "delta of 0.002"),
    ],
)
def test_a_total_that_protects_nobody_must_be_confirmed(project, command, words, says):
    before = entries(project)
    assert_refused(command("ledger", *words, *WHO), 2, "--large-epsilon", says)
    assert entries(project) == before
    assert command("ledger", *words, "--large-epsilon", *WHO).code == 0
    assert entries(project) == before + 1


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_at_a_terminal_a_large_total_is_asked_about(project, command, monkeypatch, answer, code):
    before = entries(project)
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr("flows.cli.arguments._at_a_terminal", lambda: True)
    assert command("ledger", "open", "new", "--epsilon", "1e6", *WHO).code == code
    assert entries(project) == before + (code == 0)


def test_restating_states_what_a_period_may_use_of_delta(project, command):
    words = ("--per", "month", "--period-epsilon", "1/2", *WHO)
    zcdp = ("--epsilon", "2", "--delta", "1e-5", "--composition", "zcdp")
    command("ledger", "open", "m", *zcdp, *words)
    count = entries(project)
    to_basic = ("ledger", "restate", "m", "--composition", "basic", *WHO)
    said = "give --period-delta, what one month may use of the delta 1e-05, or 0 for pure"
    assert_refused(command(*to_basic), 2, said)
    assert_refused(command(*to_basic, "--period-delta", "1e-4"), 2, "above the account's whole")
    assert entries(project) == count
    spec = project.write_spec(account="m", privacy="{epsilon: 0.5, delta: 1e-6}")
    supposed = command("ledger", "forecast", spec, "--json").json["forecasts"][1]
    assert (supposed["releases"], supposed["note"]) == (4, " (with --period-delta 1e-05)")
    answer = command(*to_basic, "--period-delta", "1e-6", "--json").json
    assert answer["after"]["calendar"]["delta"] == 1e-6
    assert "restated as basic (epsilon 0.5, delta 1e-06 per month) by Ada" in (
        command("ledger", "show", "m").out
    )
    assert command("ledger", "forecast", spec, "--json").json["forecasts"][0]["releases"] == 4
    # Back: all of the own delta, of which there is none.
    command("ledger", "restate", "m", "--composition", "zcdp", *WHO)
    assert command("ledger", "show", "m", "--json").json["calendar"]["delta"] == 0
    none = ("--composition", "zcdp", "--period-delta", "0", *WHO)
    assert_refused(command("ledger", "restate", "town", *none), 2, "has no allowance per period")
    assert command("ledger", "verify").code == 0


def test_a_total_and_an_allowance_are_raised_and_never_lowered(project, command):
    words = ("--per", "month", "--period-epsilon", "1/4", "--period-delta", "1e-7")
    command("ledger", "open", "m", "--epsilon", "1", "--delta", "1e-6", *words, *WHO)
    answer = command(
        "ledger", "raise", "m", "--epsilon", "2", "--period-epsilon", "1/2", *WHO, "--json"
    ).json
    assert (answer["total"]["epsilon"], answer["calendar"]["epsilon"]) == (2, 0.5)
    assert answer["calendar"]["delta"] == 1e-7
    text = command("ledger", "show", "m").out
    assert "raised to epsilon 2, delta 1e-06 (epsilon 0.5, delta 1e-07 per month) by Ada" in text
    count = entries(project)
    for option, value, said in (
        ("--period-epsilon", "0.1", "can only be raised, not lowered to 0.1"),
        ("--period-delta", "1e-8", "can only be raised"),
        ("--period-epsilon", "0.5", "has that allowance already"),
        ("--period-epsilon", "3", "above the account's whole epsilon of 2"),
    ):
        assert_refused(command("ledger", "raise", "m", option, value, *WHO), 2, said)
    assert entries(project) == count
    text = command("ledger", "raise", "m", "--delta", "1e-5", *WHO).out
    assert "total      epsilon 2, delta 1e-06    epsilon 2, delta 1e-05" in text
