"""The check whether the accounts that pay allow a release: its terms, its approval and its cost.

`tasks.support.budget_refusals` writes the messages of refusals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dp_core.errors import AwaitsApproval, BadInput, BudgetRefused, StageFailed
from dp_core.kernel.ledger.account_terms import Charter
from dp_core.kernel.ledger.running_totals import balance, lineage, other_columns
from dp_core.plan.plan import Plan
from dp_core.policies.account_balance import room_on
from dp_core.policies.refused_attempts import (
    MOST_REFUSED,
    attempts_of,
    attempts_of_family,
    examination_of,
    examined_by_desk,
    family,
)
from dp_core.policies.tried_schemas import MOST_SCHEMAS, parts_to_count, tried_schemas
from dp_core.schema.definition import Schema
from dp_core.schema.fit_parts import fit_parts
from tasks.ledger.accounts import account_names, read_recent_uses
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.leases import holder_of
from tasks.ledger.reservations import Reservation
from tasks.support.budget_refusals import (
    MOST_USES,
    Room,
    no_account,
    no_room,
    other_identity,
    other_neighbours,
    other_unit,
)


def check_reservation(book: Transaction, plan: Plan, *, approved: bool = True) -> list[str]:
    """Check that every account that pays allows the plan today.

    Args:
        book: The ledger, inside the transaction that reserves the cost.
        plan: The plan of a release that has no reservation.
        approved: Whether accounts that require approved plans have approved it; by default they
            must, and False checks it as if they had.

    Returns:
        The hashes of the parts of its schema, which count as tried; empty if it measures nothing.

    Raises:
        BadInput: if `revises` or `measurements` names no finished release of the account.
        BudgetRefused: if there is no such account, if terms or balance do not allow it, or if the
            plan waits for approval.
    """
    accounts = _paying(book, plan)
    _check_revised(book, plan)
    _check_measurements(book, plan)
    for charter in accounts:
        if approved and charter.approved_only and not book.approved(plan.hash):
            raise AwaitsApproval(
                f"Account {charter.name!r} requires approved plans, and plan {plan.hash} of release"
                f" {plan.spec.release!r} is not approved. After review, {charter.owner} can approve"
                f" it with `dp-release ledger approve {plan.hash} --by NAME --reason TEXT`.",
                row="waits-for-approval",
            )
    check_attempts(book, plan.spec.account)
    for charter in accounts:
        _check_room(book, charter, plan, accounts)
    return [] if plan.spec.measurements else tried_parts(book, plan.spec.account, plan.spec.schema)


def check_questions(charter: Charter, plan: Plan) -> None:
    """Check that an account allows the questions that a plan may ask.

    Raises:
        BudgetRefused: if it pays for core questions only, and the plan may ask an extension.
    """
    if charter.core_only and plan.extensions:
        asked = ", ".join(plan.extensions)
        raise BudgetRefused(
            f"Account {charter.name!r} pays for core questions only, and release"
            f" {plan.spec.release!r} may ask extensions of the kernel: {asked}. Choose a method"
            " that asks none, such as `method: mst` or `method: fixed`, or another account.",
            row="other-relation",
        )


def _paying(book: Transaction, plan: Plan) -> Sequence[Charter]:
    """Return the accounts that pay for a plan; their terms and earlier releases allow it.

    Raises:
        BudgetRefused: if there is no such account, if terms do not allow the plan, or if earlier
            releases identify units by other columns.
    """
    accounts = lineage(book, plan.spec.account)
    if not accounts:
        missing = no_account(account_names(book), plan.spec.account, plan.spec.privacy.unit)
        raise BudgetRefused(missing, row="no-account")
    for charter in accounts:
        check_terms(charter, plan)
        check_questions(charter, plan)
    other = other_columns(book, plan.spec.account, plan.spec.privacy.protects.columns)
    if other is not None:
        raise BudgetRefused(other_identity(plan, other), row="other-relation")
    return accounts


def check_attempts(book: Transaction, account: str) -> None:
    """Check that an account and its family were not stopped by refused attempts.

    Raises:
        BudgetRefused: if they were, and no person has allowed further attempts since.
    """
    if not attempts_of_family(book, account).is_stopped:
        return
    refused = refused_in_family(book, account)
    raise BudgetRefused(
        f"{MOST_REFUSED} attempts on account {_with_family(book, account)} were refused"
        f"{_spread(refused, account)}: the data did not fit, or the release ended before its first"
        " charge, or somebody declared the data public. Each of these can reveal an exact fact"
        " about the data. Find the cause; then a person may allow further attempts: `dp-release"
        f" ledger allow-retry {account if account in refused else next(iter(refused))} --by NAME"
        " --reason TEXT`. Then resume the release, or run it again.",
        row="attempts-refused",
    )


def tried_parts(
    book: Transaction, account: str, schema: Schema, data: str | None = None
) -> list[str]:
    """Return the hashes of the parts of a schema, if an account may try it.

    Args:
        book: The ledger.
        account: The account.
        schema: The schema.
        data: Keyed hash of the data; None (the default) if they are not known yet.

    Raises:
        BudgetRefused: if it is another schema, and the family may not try a further one.
    """
    parts = fit_parts(schema)
    _check_parts(book, account, parts, data)
    return sorted(parts)


def check_input_schema(book: Transaction, reservation: Reservation, data: str) -> None:
    """Check that a release may learn whether its data fit its schema, before it is bound to them.

    Raises:
        BudgetRefused: if its schema was part of a question desk's, its data are not those that fit
            this schema, and the family may not try a further schema.
    """
    parts = parts_to_count(book, reservation.position)
    if parts:
        _check_parts(book, reservation.account, parts, data)


def _check_parts(book: Transaction, account: str, parts: Collection[str], data: str | None) -> None:
    tried = tried_schemas(book, account, book.today())
    if tried.is_full and tried.is_new(parts, data):
        desk = " Open a question desk again if its data changed." if tried.fitting else ""
        raise BudgetRefused(
            f"{MOST_SCHEMAS} different schemas were tried on the data of account"
            f" {_with_family(book, account)} in this period. Whether data fit a further one is an"
            " exact answer about them. Use a schema that was tried, or let a person allow more:"
            f" `dp-release ledger allow-retry {account} --by NAME --reason TEXT`.{desk}",
            row="schemas-tried",
        )


def check_new_attempt(book: Transaction, account: str) -> None:
    """Check that an account may begin one more attempt to use its data.

    Raises:
        BudgetRefused: if it was stopped by refused attempts.
        StageFailed: if the open attempts of its family could become as many refusals as are
            allowed.
    """
    check_attempts(book, account)
    if attempts_of_family(book, account).is_full:
        # privacy: otherwise any number of attempts could be begun before the first is refused.
        raise StageFailed(
            f"At most {MOST_REFUSED} attempts on account {_with_family(book, account)} may be"
            f" refused or open (without a first charge). {open_in_words(book, account)} Then"
            " `dp-release run` or `resume` may begin the next.",
            row="attempts-open",
        )


def check_opening(book: Transaction, reservation: Reservation) -> None:
    """Check that a release may open its data now, for the first time or again.

    Raises:
        BudgetRefused: if refused attempts have stopped its account.
        StageFailed: if this would be a new attempt, and too many are open.
    """
    state = examination_of(book, reservation.position)
    if state == "charged":
        # Open attempts of other releases must not stop a release that has charged.
        check_attempts(book, reservation.account)
    elif state not in ("open", "fits"):
        check_new_attempt(book, reservation.account)


def check_comparison(book: Transaction) -> None:
    """Check that a comparison may compare its data with the inputs of every account.

    Raises:
        BudgetRefused: if refused attempts have stopped an account that has an input.
        StageFailed: if the open attempts of such an account could become as many refusals as are
            allowed. The message names no release, because it may be another person's.
    """
    owners = dict.fromkeys(entry.receipt.account for entry in book.find(kinds=("input",)))
    for account in owners:
        check_attempts(book, account)
        if attempts_of_family(book, account).is_full:
            raise StageFailed(
                "An account of this ledger has too many open attempts, so a comparison cannot look"
                " up its data now; `dp-release ledger show ACCOUNT` gives the number of an"
                " account. Repeat the comparison when fewer are open.",
                row="attempts-open",
            )


def open_in_words(book: Transaction, account: str) -> str:
    """Return sentences that name the family's open attempts, and what to do."""
    releases = [
        entry.receipt.release
        for name in family(book, account)
        for entry in book.find(account=name, kinds=("examine",))
        if examination_of(book, entry.reservation or 0) in ("open", "fits")
    ]
    desks = [name for name in family(book, account) if examined_by_desk(book, name) is not None]
    at_work = [name for name in releases if holder_of(book, name) is not None]
    stopped = [name for name in releases if name not in at_work]
    words = []
    if at_work:
        words.append(f"At work: {_listed(at_work)}; wait.")
    if stopped:
        words.append(
            f"Interrupted: {_listed(stopped)}; type `dp-release resume NAME` for each, or"
            " `dp-release abandon NAME`, which counts as a refused attempt."
        )
    if desks:
        words.append(f"Question desk whose data are examined: {_listed(desks)}; open it again.")
    return " ".join(words)


def refused_in_family(book: Transaction, account: str) -> dict[str, int]:
    """Return the refused attempts that no person has allowed again, by account of the family."""
    found = {name: attempts_of(book, name).recent for name in family(book, account)}
    return {name: recent for name, recent in found.items() if recent}


def _with_family(book: Transaction, account: str) -> str:
    alone = len(family(book, account)) == 1
    return repr(account) if alone else f"{account!r} and its family (accounts above and within it)"


def _spread(refused: Mapping[str, int], account: str) -> str:
    if set(refused) == {account}:
        return ""
    return f" ({', '.join(f'{name!r} {count}' for name, count in refused.items())})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _check_revised(book: Transaction, plan: Plan) -> None:
    revised = plan.spec.revises
    if revised is None:
        return
    end = book.latest(kinds=("settle",), release=revised, account=plan.spec.account)
    if end is None or end.body["outcome"] != "finished":
        raise BadInput(
            f"revises: {revised!r} is not a finished release of account {plan.spec.account!r};"
            " `dp-release status` lists the releases."
        )


def _check_measurements(book: Transaction, plan: Plan) -> None:
    """Check that the release whose tables are used is finished, in the account that is named."""
    earlier = plan.spec.measurements
    if earlier is None:
        return
    end = book.settlement(earlier.release)
    finished = end is not None and end.body["outcome"] == "finished"
    if (
        end is None
        or not finished
        or (end.hash, end.account) != (earlier.used.head, plan.spec.account)
    ):
        raise BadInput(
            f"measurements: {earlier.release!r} is not a finished release of account"
            f" {plan.spec.account!r}; `dp-release status` lists the releases.",
            row="measurements-unusable",
        )


def check_terms(charter: Charter, plan: Plan) -> None:
    """Check that the account's terms allow the release, whatever its cost.

    Raises:
        BudgetRefused: if the account is closed, or has another neighbouring relation or unit.
    """
    if charter.closed:
        raise BudgetRefused(
            f"Account {charter.name!r} is closed; no more releases can be made from it.",
            row="account-closed",
        )
    if plan.spec.privacy.neighbours != charter.neighbours:
        raise BudgetRefused(other_neighbours(plan, charter), row="other-relation")
    if plan.spec.privacy.unit != charter.unit:
        raise BudgetRefused(other_unit(plan, charter), row="other-relation")


def _check_room(
    book: Transaction, charter: Charter, plan: Plan, accounts: Sequence[Charter]
) -> None:
    """Check that an account can pay the cost of a plan today.

    Args:
        book: The ledger, inside the transaction that reserves the cost.
        charter: The account.
        plan: The plan to reserve.
        accounts: All accounts that pay; the message states the largest epsilon that fits them all.

    Raises:
        BudgetRefused: if the cost exceeds what the account has left.
    """
    today = book.today()
    asked = charter.terms.promised(plan.currency, *plan.promise)
    left = room_on(book, charter, today)
    if asked.within(left):
        return
    total_left = charter.terms.limit - balance(book, charter.name).used
    uses = read_recent_uses(book, charter, MOST_USES + 1)
    rooms = [Room(each.terms, room_on(book, each, today)) for each in accounts]
    raise BudgetRefused(
        no_room(plan, charter, asked, Room(charter.terms, left), total_left, today, uses, rooms),
        row="budget-used-up",
    )
