"""What `dp-release desk` shows: a desk, what its users have left, and its questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Block, Fact, Listing, Sentence, Title, numbers, texts
from flows.answers.amounts import PrivacyAmount, amount_left
from flows.desk.desk import Desk, all_desks, is_open
from flows.desk.kept_questions import KeptQuestions
from flows.desk.service.open_desks import counts_by_state, questions_as_seen

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger


def desk_answer(desk: Desk, ledger: Ledger) -> CommandAnswer:
    """Return a desk as the privacy officer sees it: terms, what is left, and its questions.

    Args:
        desk: The desk.
        ledger: The ledger of its home.
    """
    terms, kept = desk.terms, KeptQuestions(desk)
    allowances = [
        {"user": user, "account": name, "left": amount_left(account.terms, account.left)}
        for user, name in ((None, terms.account), *terms.users.items())
        if (account := ledger.find_account(name)) is not None
    ]
    seen = questions_as_seen(desk, kept)
    values = {
        "account": terms.account,
        "closed": not is_open(desk, ledger),
        # As in the ledger's entry of the person who opened it.
        "terms_hash": desk.terms_hash,
        "file": desk.file,
        "title": terms.schema.title,
        "unit": terms.schema.unit.word,
        "neighbours": terms.neighbours,
        "delta": float(terms.delta),
        "largest_epsilon": float(terms.largest_epsilon),
        "answers": terms.answers,
        "columns": terms.schema.names,
        # The account of the desk has no user.
        "allowances": allowances,
        "counts": counts_by_state(seen),
        "questions": [
            {
                "number": each.number,
                "user": each.user,
                "kind": each.kind,
                "question": each.text,
                # Epsilon of the release that answers it.
                "epsilon": float(each.cost),
                # Its state, as its user sees it, and whether its release was begun.
                "state": state.state,
                "begun": kept.stage(each) != "admitted",
                "reason": state.reason,
                "release": kept.release(each.answered_by or each.number),
                # Whether an earlier question paid for the measurement.
                "free": each.answered_by is not None,
            }
            for each, state in zip(kept.all(), seen, strict=True)
        ],
    }
    most = PrivacyAmount(terms.largest_epsilon, terms.delta)
    return CommandAnswer(values, (*_page(values, most),))


def _page(desk: Mapping[str, Any], most: PrivacyAmount) -> Iterator[Block]:
    state = "closed: it takes no new questions" if desk["closed"] else "open"
    columns = f"{desk['title']}, {len(desk['columns'])} columns."
    yield Title(f"Question desk {desk['account']}", f" is {state}. {columns}")
    yield Fact(
        "A question",
        f"costs at most {most.in_words} ({desk['neighbours']}, one {desk['unit']}); answers"
        f" {desk['answers'].replace('-', ' ')}.",
    )
    for each in desk["allowances"]:
        who = "Account" if each["user"] is None else f"User {each['user']}"
        yield Fact(who, f"{each['account']} has {each['left'].in_words} left.")
    yield Fact("File", str(desk["file"]), whole=True)
    yield Fact("Terms", f"{desk['terms_hash']} (hash of the terms and the schema).")
    if not desk["questions"]:
        yield Fact("Questions", "none yet.")
        return
    counts = ", ".join(f"{number} {state}" for state, number in desk["counts"].items())
    yield Fact("Questions", f"{counts}.")
    rows = [
        (
            one["number"],
            one["user"],
            one["question"],
            "0 (paid before)" if one["free"] else f"{one['epsilon']:g}",
            "waiting (begun)" if one["begun"] and one["state"] == "waiting" else one["state"],
            one["release"],
        )
        for one in desk["questions"]
    ]
    headings = texts("user", "question", "epsilon", "state", "release")
    yield Listing((*numbers("no"), *headings), rows)
    for one in desk["questions"]:
        if one["reason"]:
            yield Fact(f"Question {one['number']}", one["reason"])


def all_desks_answer(ledger: Ledger) -> CommandAnswer:
    """Return all desks of a home, by account."""
    desks = [desk_answer(desk, ledger).values for desk in all_desks()]
    rows = [
        (desk["account"], "closed" if desk["closed"] else "open", len(desk["questions"]))
        for desk in desks
    ]
    page: Block = Listing((*texts("desk", "state"), *numbers("questions")), rows)
    if not desks:
        how = "`dp-release desk open FILE --by NAME --reason TEXT` opens one."
        page = Sentence(f"No question desk is open. {how}")
    return CommandAnswer({"desks": desks}, (page,))
