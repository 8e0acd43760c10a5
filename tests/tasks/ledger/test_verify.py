"""The check of a whole ledger: any change of any entry or total is found and named."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
import sqlalchemy as sa

from dp_core.accounts import chain_audit as audit_module
from dp_core.accounts.chain_audit import first_bad_link
from dp_core.accounts.signatures import make_key
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.entries import entry_link
from dp_core.kernel.ledger.receipts import KINDS, PUBLISHED, receipt_hash
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent
from tasks.ledger import ledger as ledger_module
from tasks.ledger import ledger_reader
from tasks.ledger.database.ledger_tables import ENTRIES, TOTALS
from tasks.ledger.database.sql_store import SqlStore
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.full import at_full_size
from tests.ledgers import (
    GAUSSIAN,
    HOME,
    KEY,
    LAPLACE,
    WHO,
    audited,
    basic,
    begin,
    measure,
    monthly,
    open_town,
    owner,
    refuse,
    spend,
    steps_of,
)
from tests.specs import plan_of

pytestmark = pytest.mark.any_database


def adopt(ledger):
    """Write what the adoption of a ledger records, which this one does not need."""
    with ledger._database.writing() as book:
        position, link = book.head().position, book.head().link
        head = {"position": position, "link": link}
        lost = {"position": position + 2, "link": "0" * 64}
        what = {"place": {}, "elsewhere": None, "replaced": [], "closed": []}
        book.append("adopt", body={"from": lost, "to": head, "behind": 2, **what, **WHO})


def fill(ledger, folder):
    """Write an entry of every kind but `key`."""
    adopt(ledger)
    open_town(ledger, "country", basic("9", "1e-4"), calendar=monthly("5", carry_over=True))
    open_town(ledger, within="country")
    open_town(ledger, "village")
    ledger.raise_account("town", epsilon=Fraction(5, 2), **WHO)
    approved = plan_of(folder, GAUSSIAN, privacy="{epsilon: 0.25, delta: 1e-6}")
    ledger.approve(approved.hash, **WHO)
    ledger.withdraw(approved.hash, **WHO)
    spend(ledger, approved)
    second = plan_of(folder, LAPLACE, privacy="{epsilon: 0.25}", release="second")
    with both_writers(ledger, "second", HOME) as writer:
        writer.settle(writer.reserve(second), "returned")
        held = begin(writer, second)
        writer.charge(held, "one_way-0", steps_of(second, "one_way"))
        writer.record_redraw(held, "one_way-0")
        writer.commit(held, "one_way-0", "0" * 64)
    third = plan_of(folder, LAPLACE, privacy="{epsilon: 0.25}", release="third")
    with both_writers(ledger, "third", HOME) as writer:
        held = measure(writer, third, ["one_way"])
        writer.await_approval(held, "after-approval", ["0" * 64])
        writer.look(**WHO)
        writer.decide(held, "publish", **WHO)
    ledger.restate_account("town", composition="zcdp", own_delta=Fraction(0), **WHO)
    for number in range(3):
        refuse(ledger, plan_of(folder, release=f"refused-{number}", account="village"))
    ledger.allow_retry("village", **WHO)
    ledger.open_desk("town", "f" * 64, second.spec.schema, **WHO)
    ledger.close_desk("town", "f" * 64, **WHO)
    ledger.declare_public(1, **WHO)
    with pytest.raises(BadInput, match="belong to account 'town'"):
        ledger.refuse_known(["input of second", "unknown"], **WHO)
    ledger.close_account("village", **WHO)


@pytest.fixture(scope="module")
def signer(tmp_path_factory):
    return make_key(tmp_path_factory.mktemp("key") / "ledger.pem")


@pytest.fixture(scope="module")
def filled(tmp_path_factory, signer):
    """Put a filled ledger in the place of an empty one; each is written once and then copied."""
    written = {}

    def put(url, server, *, with_key):
        which = server is None, with_key
        if which not in written:
            folder = tmp_path_factory.mktemp("filled")
            written[which] = server.create_database() if server else f"sqlite:///{folder}/filled.db"
            if with_key:
                Ledger(written[which]).add_key(signer, replaces=None, **WHO)
            fill(Ledger(written[which], signer if with_key else None), folder)
        if server:
            server.copy_database(written[which], url)
        else:
            shutil.copy(sa.make_url(written[which]).database, sa.make_url(url).database)
        return Ledger(url, signer if with_key else None)

    return put


@pytest.fixture
def server_of(request, ledger_url):
    """The server of the test's ledger, None for SQLite."""
    return None if ledger_url.startswith("sqlite") else request.getfixturevalue("postgres_server")


@pytest.fixture
def used(ledger_url, server_of, filled):
    return filled(ledger_url, server_of, with_key=False)


@pytest.fixture
def signed(ledger_url, server_of, filled):
    """A ledger with every kind of entry."""
    return filled(ledger_url, server_of, with_key=True)


@pytest.fixture
def signatures_checked_once(monkeypatch):
    """Remember of each signature whether it is good; a changed one is checked anew."""
    monkeypatch.setattr(audit_module, "is_signed", cache(audit_module.is_signed))


def test_a_ledger_that_nobody_touched_verifies(signed, signer):
    entries = signed.entries()
    assert {entry.kind for entry in entries} == set(KINDS)
    told = []
    found = signed.verify(KEY, trusted=[signer.public], progress=told.append)
    assert (found.entries, found.head) == (len(entries), entries[-1].link)
    assert (found.signed, found.keys) == (len(entries) - 1, (signer.public,))
    for position in {entry.reservation for entry in entries} - {None}:
        receipts = [
            entry.receipt for entry in signed.entries(reservation=position, kinds=PUBLISHED)
        ]
        assert first_bad_link(receipts) is None


def test_progress_goes_from_nothing_to_all(used, monkeypatch):
    monkeypatch.setattr(ledger_module, "_REPORT_EVERY", 4)
    told = []
    count = used.verify(progress=told.append).entries
    assert len(told) == count // 4
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 1


# -- any column of any row


def others(value):
    """Yield other values for a column that holds this one."""
    if value is None:
        return ("x", 1)
    if isinstance(value, int):
        return (value + 1, -value - 1, 10**9, None)
    changed = [value[:-1] + chr(ord(value[-1]) ^ 1)] if value else ["x"]
    changed += [value.upper(), value.replace(":", ": "), ""]
    return [*(text for text in changed if text != value), None]


def accepted(connection, statement):
    """Carry out a change, unless the database has no such value."""
    try:
        with connection.begin_nested():
            connection.execute(statement)
    except (sa.exc.IntegrityError, sa.exc.ProgrammingError, sa.exc.DataError):
        return False
    return True


def verify_inside(connection):
    """Check the ledger as a transaction sees it that is undone later."""
    rows = SqlStore(connection)

    def walk():
        # Few at a time, so that what comes after the first wrong one is not even read.
        after, size = 0, 6
        while True:
            try:
                page = rows.page(after, size)
            except LedgerCorrupt:
                if size == 1:
                    raise
                size = 1
                continue
            if not page:
                return
            yield from page
            after = page[-1][0].position

    found = audited(walk())
    rows.check()
    return found


def found_by_changing(connection, table, key, values, rows):
    """Change each column of each row in turn; yield what was changed, and what the check says.

    Args:
        connection: As the owner of the database.
        table: Whose rows.
        key: Its columns that tell rows apart.
        values: From a row and a column's name to other values.
        rows: Which of them.
    """
    for row in rows:
        here = sa.and_(*(table.c[name] == row[name] for name in key))
        for name in (column.name for column in table.columns):
            for value in values(row, name):
                point = connection.begin_nested()
                if accepted(connection, sa.update(table).where(here).values({name: value})):
                    with pytest.raises(LedgerCorrupt) as found:
                        verify_inside(connection)
                    yield row, name, value, found.value.message
                point.rollback()


@pytest.mark.usefixtures("signatures_checked_once")
def test_a_change_of_any_column_of_any_kind_of_entry_is_found_and_names_it(signed, ledger_url):
    most = 2 if ledger_url.startswith("sqlite") and at_full_size() else 1
    tried = set()
    with owner(ledger_url) as connection:
        entries = connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.position.desc()))
        rows = {row["kind"]: row for row in entries.mappings()}.values()  # the first of its kind
        assert len(rows) == len(KINDS)
        for row, name, value, said in found_by_changing(
            connection, ENTRIES, ["position"], lambda row, name: others(row[name])[:most], rows
        ):
            tried.add((row["position"], name))
            named = int(said.split()[1])
            assert named in {row["position"], value if name == "position" else None}, said
    # The database refuses some by itself: what may be there once, and what is never empty.
    least = 1 if most == 2 else 0.8
    assert len(tried) >= least * len(rows) * len(ENTRIES.columns)
    signed.verify(KEY)


def test_a_change_of_any_column_of_any_total_is_found_and_names_it(used, ledger_url):
    with owner(ledger_url) as connection:
        rows = connection.execute(sa.select(TOTALS)).mappings().all()
        sqlite, ends = ledger_url.startswith("sqlite"), (rows[0], rows[-1])
        if not at_full_size():
            rows = rows[:: max(1, len(rows) // 8)]
        positions = sorted({row["position"] for row in rows})
        subjects = sorted({row["subject"] for row in rows})

        def values(row, name):
            # Of a key most are refused, being there already.
            most = 5 if sqlite and (name != "value" or row in ends) else 2
            if name == "value":
                return others(row["value"])[:most]
            every = (
                subjects if name == "subject" else [10**9, 0, -1, row["position"] - 1, *positions]
            )
            return [*(value for value in every if value != row[name]), None][:most]

        tried = set()
        for row, name, _, said in found_by_changing(
            connection, TOTALS, ["subject", "position"], values, rows
        ):
            tried.add((row["subject"], row["position"], name))
            assert "unning total of" in said
    least = 1 if ledger_url.startswith("sqlite") else 0.8
    assert len(tried) >= least * len(rows) * len(TOTALS.columns)
    used.verify()


@pytest.mark.usefixtures("used")
def test_the_last_state_of_every_total_is_needed(ledger_url):
    with owner(ledger_url) as connection:
        latest = sa.select(TOTALS.c.subject, sa.func.max(TOTALS.c.position)).group_by(
            TOTALS.c.subject
        )
        found = connection.execute(latest).all()
        assert len(found) == 15
        for subject, position in found:
            point = connection.begin_nested()
            here = (TOTALS.c.position == position) & (TOTALS.c.subject == subject)
            connection.execute(sa.delete(TOTALS).where(here))
            with pytest.raises(LedgerCorrupt, match=f"running total of '{subject}' is missing"):
                verify_inside(connection)
            point.rollback()


# -- rows that are missing, moved, or written again


def test_any_missing_entry_is_named(used, ledger_url):
    positions = [entry.position for entry in used.entries()]
    with owner(ledger_url) as connection:
        for position in positions[:-1]:
            point = connection.begin_nested()
            connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.position == position))
            with pytest.raises(LedgerCorrupt, match=rf"^Entry {position} .* is missing"):
                verify_inside(connection)
            point.rollback()


def test_the_last_entry_can_only_be_missed_by_who_noted_its_link(ledger_url):
    """A chain that is cut at its end is a whole chain; its count and last link are not the same."""
    ledger = Ledger(ledger_url)
    open_town(ledger)
    ledger.approve("plan", **WHO)
    before = ledger.verify()
    with owner(ledger_url) as connection:
        connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.position == before.entries))
    after = ledger.verify()
    assert after.entries == before.entries - 1
    assert [entry.link for entry in ledger.entries(position=after.entries)] == [after.head]
    assert not ledger.entries(position=before.entries)


def test_a_last_entry_that_left_its_totals_behind_is_missed(used, ledger_url):
    with both_writers(used, "third", HOME) as writer:
        del writer
    spent = used.head().position
    with owner(ledger_url) as connection:
        latest = connection.execute(sa.select(sa.func.max(TOTALS.c.position))).scalar()
        assert latest < spent
        connection.execute(sa.delete(ENTRIES).where(ENTRIES.c.position >= latest))
    with pytest.raises(LedgerCorrupt, match="does not belong to any entry"):
        used.verify()


def columns_of(entry):
    receipt = entry.receipt
    return {
        "body": canonical_json(dict(receipt.body)).decode(),
        "previous": receipt.previous,
        "number": receipt.number,
        "hash": receipt.hash,
        "link": entry.link,
    }


def test_an_entry_that_was_written_again_with_its_hash_is_found_by_the_next(used, ledger_url):
    """Whoever recomputes one link has to recompute every later one."""
    entry, following = used.entries(kinds=("raise",))[0], None
    following = used.entries(position=entry.position + 1)[0]
    previous = used.entries(position=entry.position - 1)[0].link
    receipt = replace(entry.receipt, body={**entry.body, "epsilon": "7"})
    receipt = replace(receipt, hash=receipt_hash(receipt))
    forged = replace(entry, receipt=receipt)
    forged = replace(forged, link=entry_link(forged, previous))
    with owner(ledger_url) as connection:
        here = ENTRIES.c.position == entry.position
        connection.execute(sa.update(ENTRIES).where(here).values(**columns_of(forged)))
    sentence = rf"^Entry {following.position} \(.*does not follow entry {entry.position}"
    with pytest.raises(LedgerCorrupt, match=sentence):
        used.verify()


def rewritten(entries, change):
    """Return entries written again with all hashes and links, after a change of some bodies."""
    previous, last = "0" * 64, {}
    found = []
    for entry in entries:
        receipt = replace(entry.receipt, **change(entry))
        if entry.kind in PUBLISHED and entry.kind != "reserve":
            receipt = replace(receipt, previous=last[entry.reservation])
        receipt = replace(receipt, hash=receipt_hash(receipt))
        if entry.kind in PUBLISHED:
            last[entry.reservation] = receipt.hash
        forged = replace(entry, receipt=receipt)
        forged = replace(forged, link=entry_link(forged, previous))
        previous = forged.link
        found.append(forged)
    return found


def forge(kind, **values):
    """Return a change of the bodies of one kind."""

    def change(entry):
        return {"body": {**entry.body, **values}} if entry.kind == kind else {}

    return change


def without(kind, name):
    """Return a change that leaves one value out of the bodies of one kind."""

    def change(entry):
        body = {key: value for key, value in entry.body.items() if key != name}
        return {"body": body} if entry.kind == kind else {}

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (forge("charge", cost="1/100000000"), "costs less than its event"),
        (forge("charge", cost="1"), "charges more than stage"),
        (forge("charge", batch="another"), "was changed"),
        (forge("settle", spent="1/7"), "states another sum"),
        (forge("settle", ledger="another"), "states another ledger, or other totals"),
        (forge("settle", totals=[]), "states another ledger, or other totals"),
        (forge("settle", totals="2"), "states another ledger, or other totals"),
        (forge("settle", outcome="forgotten"), "has no valid outcome"),
        (forge("settle", outcome="returned"), "returns a reservation"),
        (forge("settle", seen=False), "no result was seen"),
        (forge("settle", seen=0), "has no valid outcome"),
        (forge("reserve", neighbours="replace-one"), "another neighbouring relation"),
        (forge("reserve", only_women=True), "unknown terms .only_women"),
        (forge("reserve", epsilon="100"), "promises more than account"),
        (forge("reserve", costs={"measure": "100"}), "states costs of stages"),
        (forge("reserve", currency={"kind": "pure"}), "was changed"),
        (forge("raise", epsilon="1/2"), "lowers the total"),
        (forge("raise", calendar=monthly("9").to_json()), "replaces the calendar"),
        (forge("raise", epsilon="1/0"), "was changed"),
        (without("restate", "calendar"), "was changed"),
        (forge("open", epsilon="none"), "was changed"),
        (forge("open", within="nowhere"), "was changed"),
        (forge("input", home=5), None),
        (forge("attempt", attempt=1), "has the wrong unique key"),
        (forge("commit", batch="another"), "was changed"),
        (
            lambda entry: {"kind": "gift"} if entry.kind == "approve" else {},
            "is of a kind that this version does not know; update dp-release",
        ),
        (lambda entry: {"kind": "gift"} if entry.kind == "ledger" else {}, "is misplaced"),
        (lambda entry: {"release": "x"} if entry.kind == "charge" else {}, "belongs to no"),
        (lambda entry: {"at": "2020-01-01"} if entry.kind == "open" else {}, "was changed"),
    ],
)
@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_ledger_rewritten_against_its_own_rules_is_found(used, change, sentence):
    entries = [entry for entry, _ in used.all_entries()]
    forged = rewritten(entries, change)
    if sentence is None:  # only the seal tells, under the key
        assert audited((entry, None) for entry in forged).entries == len(forged)
        return
    place = next(
        old.position
        for old, new in zip(entries, forged, strict=True)
        if old.receipt.body != new.receipt.body
        or old.receipt.at != new.receipt.at
        or old.kind != new.kind
        or old.receipt.release != new.receipt.release
    )
    with pytest.raises(LedgerCorrupt, match=sentence) as found:
        audited((entry, None) for entry in forged)
    assert int(found.value.message.split()[1]) >= place


def test_a_whole_rewritten_ledger_keeps_every_rule_when_nothing_is_forged(used):
    entries = [entry for entry, _ in used.all_entries()]
    assert rewritten(entries, lambda _: {}) == entries
    assert audited((entry, None) for entry in entries).head == used.head().link


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_charge_for_an_event_with_a_delta_of_its_own_is_found(used, monkeypatch):
    used.verify()
    monkeypatch.setattr(GaussianEvent, "own_delta", lambda _: Fraction("1e-8"))
    with pytest.raises(LedgerCorrupt, match=r"\(charge\) has an own delta"):
        used.verify()


def test_an_entry_that_is_there_twice_is_found(used):
    """Moved on by one, with all links: what may be there once is counted, not only chained."""
    entries = [entry for entry, _ in used.all_entries()]
    for kind in ("ledger", "open", "close"):
        entry = next(entry for entry in entries if entry.kind == kind)
        end = entries[-1]
        again = replace(entry, position=end.position + 1, recorded=end.recorded)
        again = replace(again, link=entry_link(again, end.link))
        with pytest.raises(LedgerCorrupt, match=rf"^Entry {end.position + 1} \({kind}\)"):
            audited((entry, None) for entry in [*entries, again])


# -- inputs are sealed


def test_a_rewritten_input_is_found_by_who_has_the_key(used):
    entry = used.entries(kinds=("input",))[0]
    assert used.verify(KEY).entries
    with pytest.raises(LedgerCorrupt, match=rf"^Entry {entry.position} \(input\).*not\s+sealed"):
        used.verify(b"l" * 32)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_seal_covers_the_input_the_release_and_the_account(used):
    from tasks.ledger.input_seals import is_sealed

    entry = used.entries(kinds=("input",))[0]
    assert is_sealed(entry, KEY)
    receipt = entry.receipt
    for forged in (
        replace(entry, about="another"),
        replace(entry, reservation=entry.reservation + 1),
        replace(entry, receipt=replace(receipt, release="other")),
        replace(entry, receipt=replace(receipt, account="other")),
        replace(entry, receipt=replace(receipt, body={**receipt.body, "seal": "0" * 64})),
    ):
        assert not is_sealed(forged, KEY)


# -- work


def test_the_check_looks_at_every_charge_a_fixed_number_of_times(tmp_path, monkeypatch):
    """Counted calls, not time: twice the charges are twice the work."""
    calls = {}

    def counted(name, function):
        def call(*values, **named):
            calls[name] = calls.get(name, 0) + 1
            return function(*values, **named)

        return call

    statements = []

    def work(count):
        ledger = Ledger(f"sqlite:///{tmp_path / f'{count}.db'}")
        open_town(ledger)
        plan = plan_of(tmp_path)
        with both_writers(ledger, "first", HOME) as writer:
            held = begin(writer, plan)
            cost = held.costs["measure"] / (2 * count)
            from tests.ledgers import step

            for number in range(count):
                writer.charge(held, f"b{number}", [step(held, "measure", f"s{number}", cost)])
                writer.commit(held, f"b{number}", "0" * 64)
        engine = ledger._database._engine
        sa.event.listen(engine, "before_cursor_execute", lambda *_: statements.append(1))
        calls.clear()
        statements.clear()
        ledger.verify()
        return dict(calls), len(statements)

    for name in ("judged", "promise_of"):
        monkeypatch.setattr(audit_module, name, counted(name, getattr(audit_module, name)))
    monkeypatch.setattr(json, "loads", counted("loads", json.loads))
    (once, few), (twice, as_few) = work(10), work(20)
    assert once["judged"] == 2 + 2 + 20
    for name in once:
        assert twice[name] <= 2 * once[name], name
    assert few == as_few


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_pages_of_the_walk_leave_nothing_out(used, monkeypatch, size):
    whole = used.verify()
    monkeypatch.setattr(ledger_reader, "_PAGE", size)
    assert used.verify() == whole
    assert [entry.position for entry, _ in used.all_entries()] == list(range(1, whole.entries + 1))


def test_an_unreadable_entry_is_one_sentence_and_not_a_traceback(used, ledger_url):
    with owner(ledger_url) as connection:
        opening = ENTRIES.c.position == used.entries(account="town", kinds=("open",))[0].position
        connection.execute(sa.update(ENTRIES).where(opening).values(body="no json"))
    for read in (used.accounts, used.verify, lambda: used.account("town")):
        with pytest.raises(LedgerCorrupt, match=r"\(open\) was changed"):
            read()


def test_the_first_wrong_entry_is_named_where_two_are_wrong(used, ledger_url):
    with owner(ledger_url) as connection:
        for position, values in ((4, {"salt": "0" * 32}), (6, {"body": "no json"})):
            here = ENTRIES.c.position == position
            connection.execute(sa.update(ENTRIES).where(here).values(**values))
    with pytest.raises(LedgerCorrupt, match=r"^Entry 4 \("):
        used.verify()


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_half_of_a_surrogate_pair_in_a_stored_body_is_named(ledger_url):
    ledger = Ledger(ledger_url)
    open_town(ledger)
    change = r"""SET body = replace(body, '"officer"', '"\ud800"')"""
    with owner(ledger_url) as connection:
        connection.exec_driver_sql(f"UPDATE entries {change} WHERE position = 2")
    with pytest.raises(LedgerCorrupt, match=r"^Entry 2 \(open\) was changed"):
        ledger.verify()


def test_what_is_no_text_is_refused_and_nothing_recorded(ledger_url):
    ledger = Ledger(ledger_url)
    open_town(ledger)
    for write in (
        lambda: ledger.close_account("town", by="officer", reason="caf\udce9"),
        lambda: ledger.approve("\ud800", by="officer", reason="test"),
        lambda: open_town(ledger, "\udce9"),
        lambda: ledger.account("\udce9"),
    ):
        with pytest.raises(BadInput, match="not valid UTF-8"):
            write()
    assert ledger.verify().entries == 2
