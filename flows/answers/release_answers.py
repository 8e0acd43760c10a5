"""The answers about releases: status, publication, approval and end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput
from dp_core.plan.plan import Plan
from dp_core.policies.approval import Gate
from dp_core.text.pages.answer import CommandAnswer, known_values
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Block, Fact, Listing, Sentence, Title, numbers, texts
from flows.answers.amounts import PrivacyAmount, account_above, amount_left, amount_of, left_words
from tasks.ledger.accounts import Account
from tasks.ledger.leases import Holder
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.home_notes import last_verified, read_progress
from tasks.run.last_stop import last_stop
from tasks.run.stage_table import CONFIDENTIAL_STAGES, stages_of
from tasks.support.run_folder import RunFolder

WITHOUT_BUNDLE = ("abandoned", "withdrawn", "failed-thresholds")
"""Outcomes of releases that spent, and published nothing."""


def known_reservation(ledger: Ledger, release: str) -> Reservation:
    """Return the reservation of a release.

    Raises:
        BadInput: if the ledger knows no such release.
    """
    found = ledger.reservation(release)
    if found is None:
        raise BadInput(
            f"There is no release {release!r} in this ledger; `dp-release status` lists them.",
            row="no-such-release",
        )
    return found


def release_status(
    home: Path, ledger: Ledger, release: str, *, show_message: bool = False
) -> CommandAnswer:
    """Return the stages, budget and state of a release.

    Args:
        home: The home.
        ledger: Its ledger.
        release: Name of the release.
        show_message: Show the own message of the error that stopped it, which may be confidential;
            False by default.

    Raises:
        BadInput: if the ledger knows no such release.
    """
    reservation = known_reservation(ledger, release)
    folder = RunFolder(home, release, reservation.link)
    charges = ledger.charges(reservation)
    spent = sum((charge.cost for charge in charges), Fraction(0))
    earlier = reservation.measurements
    stages = stages_of(reservation.costs, reservation.sets, reuses=earlier is not None)
    done = [stage for stage in stages if folder.facts_of(stage) is not None]
    holder = ledger.holder(release)
    tidy = folder.facts_of("tidy") is not None
    gate = _approval(ledger, reservation)
    state = "at work" if holder else _state(reservation, done, tidy=tidy, gate=gate)
    left = [stage for stage in stages if stage not in done]
    ended = reservation.outcome in WITHOUT_BUNDLE
    stopped, failed = None, None
    waits = gate is not None and reservation.outcome is None
    if not (holder or ended or waits or state == "finished"):
        failed = last_stop(ledger, folder, show_message=show_message)
        if reservation.outcome != "finished" and earlier is None:
            looks = set(CONFIDENTIAL_STAGES).intersection(left)
            stopped = ledger.opening_refusal(reservation) if looks else None
    if (stopped or failed) and reservation.outcome is None:
        state = "stopped until a person has acted"
    values = {
        "release": release,
        "account": reservation.account,
        "state": state,
        "outcome": reservation.outcome,
        "reserved": PrivacyAmount(reservation.epsilon, reservation.delta),
        # What stays spent of a release that ended without a bundle.
        "spent": _spending(ledger, ledger.account(reservation.account), release) if ended else None,
        # The charged share of the reservation, 0 to 1.
        "spent_part": float(spent / reservation.currency.limit)
        if reservation.currency.limit
        else 0.0,
        "charges": len(charges),
        "uncommitted": sum(charge.result is None for charge in charges),
        "stages_done": done,
        "stages_open": [] if ended else left,
        "gate": gate,
        "out": _out(folder),
        "plan_hash": reservation.plan,
        # Whether its folder is in this home.
        "here": folder.exists(),
        "holder": holder
        and {
            "process": holder.process,
            "host": holder.host,
            "since": holder.since,
            "lease_ends": ledger.lease_ends(release),
        },
        **known_values(
            # The release whose noisy tables it uses at no cost.
            measurements=earlier and earlier.release,
            # Why it cannot go on, and who must do what: what the ledger says now comes first.
            stopped=failed if stopped is None else str(stopped),
            # Whether its last attempt stopped for another reason than that of the ledger.
            failed=True if failed and stopped is None else None,
            running=_running(folder, holder),
        ),
    }
    return CommandAnswer(values, (*_status_page(values),))


def _status_page(answer: Mapping[str, Any]) -> Iterator[Block]:
    outcome, stopped = answer["outcome"], answer.get("stopped")
    yield Title(answer["release"], f": {answer['state']}")
    reserved, account = answer["reserved"].guarantee, f"account {answer['account']!r}"
    if outcome == "returned":
        yield Fact("Returned", f"{reserved} to {account}; the name can be used again.")
        if stopped:
            yield Fact("Stopped", stopped)
        return
    if answer["spent"]:
        yield Fact("Spent", f"{answer['spent'].in_words} from {account}, permanently")
    if earlier := answer.get("measurements"):
        yield Fact("Reserved", f"nothing; uses the tables of {earlier}")
    else:
        waiting = answer["uncommitted"]
        yield Fact(
            "Reserved",
            f"{reserved} from {account}; {answer['spent_part']:.0%} of it charged in"
            f" {plural(answer['charges'], 'charge')}"
            + (f", {waiting} not committed yet." if waiting else "."),
        )
    if holder := answer["holder"]:
        process = f"process {holder['process']} on {holder['host']} since {holder['since']}"
        yield Fact("Running", f"{process}; its lease ends {holder['lease_ends']} unless renewed")
    if running := answer.get("running"):
        yield Fact("Stage", f"{running['stage']}: {running['in_words']}")
    if answer["charges"] and not answer["here"] and outcome is None:
        yield Fact(
            "Folder",
            "not in this home: the release was started in another home, or its folder was deleted."
            " Resume it in that home, or abandon it.",
        )
    if stopped:
        yield Fact("Stopped", stopped)
    yield Fact("Done", ", ".join(answer["stages_done"]) or "nothing yet")
    if answer["stages_open"]:
        yield Fact("Open", ", ".join(answer["stages_open"]))
    if gate := answer["gate"]:
        for look in gate["looks"]:
            yield Fact("Look", f"on {look['day']} by {look['by']}: {look['reason']}")
        if said := gate["decision"]:
            words = f"{said['decision']} on {said['day']} by {said['by']}: {said['reason']}"
            yield Fact("Decided", words)
    if answer["out"] and outcome in (None, "finished"):
        yet = "" if "publish" in answer["stages_done"] else " (not written yet)"
        yield Fact("Bundle", f"{answer['out']}{yet}", whole=True)


def _running(folder: RunFolder, holder: Holder | None) -> dict[str, Any] | None:
    """Return how far the running stage is, from the note of the process that works on it.

    For staff, as all durations of stages. `percent` and `seconds_left` are None if they are
    unknown. None if no process works on the release, or another machine's process does.
    """
    moment = None if holder is None else read_progress(folder, holder.process)
    if moment is None:
        return None
    return {
        "stage": moment.stage,
        "percent": moment.percent,
        "seconds": round(moment.seconds),
        "seconds_left": None if moment.left is None else round(moment.left),
        "in_words": moment.in_words(),
    }


def _spending(ledger: Ledger, account: Account, release: str) -> PrivacyAmount:
    """Return what a release took of its account."""
    used = next(each for each in ledger.uses(account.name)[::-1] if each.release == release)
    return amount_of(account.terms, used.amount)


def ended_release(
    ledger: Ledger, over: Reservation, *, files: str | None = None, by: str | None = None
) -> CommandAnswer:
    """Return what a release that ended without a bundle spent, and what its account has left.

    Args:
        ledger: The ledger.
        over: The release.
        files: What became of the confidential files of an abandoned release: `deleted`, `none` (it
            never read the data), `gone` (its folder is no longer in this home), or `elsewhere`
            (another home began it and may still have them); None if it was withdrawn.
        by: Who withdrew it; None if it was abandoned.
    """
    account = ledger.account(over.account)
    spent, left = _spending(ledger, account, over.release), amount_left(account.terms, account.left)
    above = account_above(account.above)
    has_left = left_words(account.name, left, above)
    if files is None:
        sentence = (
            f"Release {over.release!r} is withdrawn: {spent.permanently_spent}, its name stays"
            f" used, and {has_left}. Its sets are deleted; its internal report remains and can be"
            " read with `dp-release release look`."
        )
    else:
        became = {
            "deleted": "Its confidential files are deleted.",
            "none": "It never read the data, so there were no files to delete.",
            "gone": "Its folder is no longer in this home, so no file was deleted.",
            "elsewhere": (
                "It was started in another home: delete its confidential files there, in"
                f" runs/{over.release}/confidential."
            ),
        }[files]
        sentence = (
            f"Release {over.release!r} is abandoned: {spent.permanently_spent}, and {has_left}."
            f" {became}"
        )
    values = {
        "release": over.release,
        "outcome": over.outcome,
        "account": account.name,
        "composition": account.terms.composition,
        "spent": spent,
        "left": left,
        "above": above,
        **known_values(files=files, by=by),
    }
    return CommandAnswer(values, (Sentence(sentence),))


def _approval(ledger: Ledger, reservation: Reservation) -> dict[str, Any] | None:
    """Return the looks and the decision of a release; None if it never waited for approval.

    They are ledger entries, for staff: names and reasons are never published.
    """
    gate = ledger.gate(reservation)
    if gate == Gate():
        return None
    found = ledger.entries(kinds=("look", "decide"), reservation=reservation.position)
    said = [{"day": one.receipt.at, "kind": one.kind, **one.body} for one in found]
    return {
        "held": gate.held,
        "cause": gate.cause,
        "looks": [one for one in said if one["kind"] == "look"],
        "decision": next((one for one in said if one["kind"] == "decide"), None),
    }


def all_statuses(home: Path, ledger: Ledger, *, show_message: bool = False) -> CommandAnswer:
    """Return the status of every release in the ledger, and what a person has to do.

    Args:
        home: The home.
        ledger: Its ledger.
        show_message: As for `release_status`.
    """
    names = ledger.releases()
    found = [release_status(home, ledger, name, show_message=show_message).values for name in names]
    needs = [
        {"release": one["release"], "do": do} for one in found if (do := _to_do(one)) is not None
    ]
    retry = "dp-release ledger allow-retry {} --by NAME --reason TEXT"
    for name in dict.fromkeys(one["account"] for one in found):
        do, attempts = retry.format(name), ledger.attempts(name)
        told = any(do in need["do"] for need in needs)
        if attempts.refused and not told and not ledger.new_attempts(name):
            needs.append({"account": name, "do": f"allow further attempts: {do}"})
    verified = last_verified(home)
    values = {"releases": found, "needs": needs, "ledger_verified": verified}
    if not found:
        none = "No releases yet. To make one: dp-release run SPEC --out DIR"
        return CommandAnswer(values, (Sentence(none),))
    rows = []
    for one in found:
        charged, state = f"{one['spent_part']:.0%}", one["state"]
        if earlier := one.get("measurements"):
            charged = f"tables of {earlier}"
        if running := one.get("running"):
            state += f", {running['stage']} {running['in_words']}"
        rows.append((one["release"], one["account"], one["reserved"].epsilon, charged, state))
    columns = (*texts("release", "account"), *numbers("epsilon"), *texts("charged", "state"))
    to_do = [Fact(f"{need.get('release') or need['account']}:", need["do"]) for need in needs]
    heading: Block = Title("Needs a person") if needs else Sentence("No release needs a person.")
    words = "not verified from this home yet; run dp-release ledger verify"
    if verified is not None:
        at = verified.at.isoformat(timespec="seconds")
        failed = f"FAILED verification {at} (runbook: ledger-changed)"
        words = f"verified {at}" if verified.passed else failed
    page = (Listing(columns, rows), heading, *to_do, Fact("Ledger", words))
    return CommandAnswer(values, page)


def _to_do(status: Mapping[str, Any]) -> str | None:
    """Return what a person has to do about a release, None for nothing."""
    name, outcome = status["release"], status["outcome"]
    if status["holder"] or status["state"] == "finished" or outcome in WITHOUT_BUNDLE:
        return None
    stopped = status.get("stopped")
    if status.get("failed"):
        return stopped
    if outcome == "returned":
        return None
    if outcome == "finished":
        return f"dp-release resume {name}"
    if status["gate"] is not None:
        return f"somebody decides: dp-release release look {name}, then publish or withdraw"
    if status["charges"] and not status["here"]:
        return "resume it in the home that began it, or abandon it"
    stage = (*status["stages_open"], "publish")[0]
    if stopped:
        return f"{stopped} `dp-release resume {name}` then continues with {stage!r}."
    return f"it stopped before {stage!r} was done: dp-release resume {name}"


def _state(
    reservation: Reservation, done: list[str], *, tidy: bool, gate: Mapping[str, Any] | None
) -> str:
    if reservation.outcome == "finished" and "publish" not in done:
        return "paid, to be published: resume it"
    if reservation.outcome == "finished" and not tidy:
        return "finished; resume it to delete its confidential files"
    if reservation.outcome is None and gate is not None:
        return f"held since {gate['held']}, waits for a person: look, publish or withdraw it"
    if reservation.outcome == "failed-thresholds":
        return "ended unpublished, by the thresholds of its spec"
    if reservation.outcome == "returned":
        return "stopped before anything was spent; its reservation was given back"
    return reservation.outcome or "unfinished: resume or abandon it"


def _out(folder: RunFolder) -> Path | None:
    try:
        return folder.recorded_paths()[1]
    except BadInput:
        return None


def published_release(
    home: Path,
    ledger: Ledger,
    plan: Plan,
    out: Path,
    *,
    seconds: float,
) -> CommandAnswer:
    """Return what a published release cost, where it is, and its public accuracy figures."""
    release = plan.spec.release
    folder = RunFolder(home, release)
    account = ledger.account(plan.spec.account)
    earlier = plan.spec.measurements
    synthesis, check = folder.facts_of("synthesize") or {}, folder.facts_of("check") or {}
    values = {
        "release": release,
        "account": account.name,
        "spent": _spending(ledger, account, release),
        "neighbours": plan.spec.privacy.neighbours,
        "charges": len(ledger.charges(known_reservation(ledger, release))),
        "left": amount_left(account.terms, account.left),
        "above": account_above(account.above),
        "out": out.absolute(),
        "sets": plan.spec.sets,
        # Records of the first set; of linked tables, households.
        "rows": (synthesis.get("rows") or [None])[0],
        "accuracy": {name: value for name, value in check.items() if name != "fits"},
        "internal": folder.internal,
        "seconds": round(seconds, 1),
        **known_values(
            measurements=earlier and earlier.release,
            persons=(synthesis.get("persons") or [None])[0],
        ),
    }
    return CommandAnswer(values, (*published_page(values),))


def published_page(made: Mapping[str, Any]) -> Iterator[Block]:
    """Yield what a published release cost, and where it is.

    Args:
        made: The values of `published_release`.
    """
    sets, earlier = "noisy tables only", made.get("measurements")
    if made["sets"]:
        size = f"{made['rows']:,} rows"
        if "persons" in made:
            size = f"{made['rows']:,} households with {made['persons']:,} persons"
        best = "the best set and " if made["accuracy"].get("best") is not None else ""
        sets = f"{best}{plural(made['sets'], 'set')} of {size}"
    yield Title(made["release"], f" is released: {sets} in {made['seconds']} s.")
    spent = f"{made['spent'].in_words} ({made['neighbours']}) in {made['charges']} charges"
    if earlier:
        spent = f"nothing; the tables of {earlier} were used"
    left = left_words(made["account"], made["left"], made["above"])
    yield Fact("Spent", f"{spent}; {left}.")
    yield from accuracy_facts(made["accuracy"])
    yield Fact("Bundle", str(made["out"]), whole=True)
    if made["sets"] and not earlier:
        yield Fact("Internal", f"{made['internal']} (confidential, for staff)", whole=True)
    first = f" --measurements DIR (the bundle of {earlier})" if earlier else ""
    yield Fact("Check", f"dp-release verify {made['out']}{first}", whole=True)


def accuracy_facts(accuracy: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield how far the sets are from the noisy tables; nothing if there are no sets.

    Args:
        accuracy: The public figures of the check stage.
    """
    if accuracy.get("mean_tvd_to_noisy") is None:
        return
    count = accuracy["tables"]
    tables = f"the {count} noisy tables" if count != 1 else "the noisy table"
    if beyond := accuracy.get("interactions"):
        tables += f" and the {beyond} interactions" if beyond != 1 else " and the interaction"
    best = ""
    if accuracy.get("best") is not None:
        best = f"; of the best set: {accuracy['best']:.4f}"
    yield Fact(
        "Accuracy",
        f"mean TVD between the sets and {tables}: {accuracy['mean_tvd_to_noisy']:.4f};"
        f" {accuracy['mean_expected_tvd']:.4f} is expected from noise and sampling{best}.",
    )
    if words := accuracy.get("relations", {}).get("in_words"):
        yield Fact("Relations", words)
