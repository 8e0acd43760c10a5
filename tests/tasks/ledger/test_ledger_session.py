import contextlib
import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dp_core.errors import LedgerCorrupt, StageFailed
from dp_core.kernel.ledger.receipts import PUBLISHED
from dp_core.kernel.privacy import Relation
from tasks.ledger.charging import ledger_session as session_module
from tasks.ledger.charging.charging_writer import MOST_DRAWS, ChargingWriter
from tasks.ledger.charging.ledger_session import LedgerSession
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import open_town, set_lease, steps_of

BATCH = "one_way-0"
KEY = b"k" * 32


class Crash(BaseException):
    """The process dies here."""


class Noise:
    """A draw that never gives the same twice and remembers how often it was asked."""

    def __init__(self, start=0):
        self.start = start
        self.drawn = []

    def __call__(self, grants):
        self.drawn.append(
            [
                np.full(grant.step.shape, self.start + 1000 * len(self.drawn) + grant.number)
                for grant in grants
            ]
        )
        return self.drawn[-1]


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    open_town(ledger)
    return ledger


@pytest.fixture
def session(writer, plan, tmp_path):
    reservation = writer.reserve(plan)
    writer.bind_input(reservation, "the hash of the input", KEY)
    grant = writer.grant(reservation, plan.hash, "basics")
    return LedgerSession(writer, reservation, Relation("add-remove"), tmp_path / "noisy", grant)


def granted(session, stage):
    """Return the session of another stage of the same release."""
    plan = session.reservation.plan
    return replace(session, grant=session.writer.grant(session.reservation, plan, stage))


@pytest.fixture
def take_over(ledger, session, tmp_path):
    """Begin a session of another holder, who takes the one before it for dead."""

    @contextlib.contextmanager
    def another():
        set_lease(f"sqlite:///{tmp_path / 'ledger.db'}", expires=0)
        with both_writers(ledger, "first", "this home") as writer:
            yield replace(session, writer=writer)

    return another


@pytest.fixture
def uncommitted(session, steps, monkeypatch):
    """Let a result be stored and its holder die before it is committed; return the noise."""
    noise = Noise()
    with monkeypatch.context() as patch:
        patch.setattr(ChargingWriter, "commit", _crash)
        with pytest.raises(Crash):
            session.perform(BATCH, steps, noise)
    return noise


def dies(_grants):
    """Draw nothing: the process dies in the draw."""
    raise Crash


@pytest.fixture
def steps(plan):
    """The steps of the one-way stage; tables of two and of more dimensions read back alike."""
    return [replace(step, shape=(*step.shape, 1)) for step in steps_of(plan, "one_way")]


def same(results, drawn):
    assert len(results) == len(drawn)
    for (_, values), exact in zip(results, drawn, strict=True):
        assert values.dtype == np.int64
        np.testing.assert_array_equal(values, exact)
    return True


def charged(session):
    return sum(charge.cost for charge in session.writer.charges(session.reservation))


def kinds(ledger):
    """What the release could publish, in order."""
    return [entry.kind for entry in ledger.entries(release="first", kinds=PUBLISHED)]


def stored(session):
    return session.folder / f"{BATCH}.noise"


def draws_of(session):
    return session.writer.charges(session.reservation, BATCH)[0].draws


# -- the rows of the protocol's table


def test_not_charged_it_is_charged_drawn_stored_and_committed(ledger, session, steps):
    noise = Noise()
    results = session.perform(BATCH, steps, noise)
    assert same(results, noise.drawn[0])
    assert charged(session) == session.reservation.costs["one_way"]
    assert kinds(ledger) == ["reserve"] + ["charge"] * len(steps) + ["commit"]
    assert [grant.number for grant, _ in results] == [
        charge.number for charge in session.writer.charges(session.reservation)
    ]
    assert os.listdir(session.folder) == [f"{BATCH}.noise"]
    assert session.folder.stat().st_mode & 0o777 == 0o700


def test_a_committed_result_is_read_back_and_costs_nothing(ledger, session, steps):
    noise = Noise()
    first = session.perform(BATCH, steps, noise)
    before = ledger.verify()
    again = session.perform(BATCH, steps, noise)
    assert same(again, noise.drawn[0])
    assert [grant for grant, _ in again] == [grant for grant, _ in first]
    assert len(noise.drawn) == 1
    assert ledger.verify() == before


def test_a_committed_result_that_is_missing_or_changed_is_refused_and_never_drawn_again(
    session, steps
):
    """Every single byte is changed in test_stored_result.py."""
    noise = Noise()
    session.perform(BATCH, steps, noise)
    whole = stored(session).read_bytes()
    for content in (b"", whole[:20], whole[:-8], whole + b"x", whole[:-1] + b"x"):
        stored(session).write_bytes(content)
        with pytest.raises(StageFailed, match=f"{BATCH}.noise.* missing or was changed"):
            session.perform(BATCH, steps, noise)
        assert stored(session).read_bytes() == content
    stored(session).unlink()
    with pytest.raises(StageFailed, match="never drawn again"):
        session.perform(BATCH, steps, noise)
    assert len(noise.drawn) == 1


def test_a_result_that_the_ledger_never_charged_is_refused_and_never_drawn_again(
    session, steps, tmp_path
):
    """A backup of the ledger is put back that does not know what was paid since."""
    file = tmp_path / "ledger.db"
    backup = file.read_bytes()
    noise = Noise()
    session.perform(BATCH, steps, noise)
    kept = stored(session).read_bytes()
    file.write_bytes(backup)

    with pytest.raises(LedgerCorrupt, match="older than the run's folder"):
        session.perform(BATCH, steps, noise)
    assert len(noise.drawn) == 1
    assert charged(session) == 0
    assert stored(session).read_bytes() == kept


def test_another_complete_result_than_the_committed_one_is_refused(session, steps):
    """Even one with a good checksum for the same charges: a second draw is not the first."""
    noise = Noise()
    results = session.perform(BATCH, steps, noise)
    grants = [grant for grant, _ in results]
    stored(session).unlink()
    session_module._draw_and_store(stored(session), grants, session._header(grants), 2, noise)
    assert session._read(stored(session), grants) is not None
    with pytest.raises(StageFailed, match="never drawn again"):
        session.perform(BATCH, steps, Noise())


# -- crashes


def _crash(*_args, **_keywords):
    raise Crash


def crash_before(patch, owner, name):
    patch.setattr(owner, name, _crash)


def crash_after(patch, owner, name):
    original = getattr(owner, name)

    def wrapper(*args, **keywords):
        original(*args, **keywords)
        raise Crash

    patch.setattr(owner, name, wrapper)


POINTS = [
    # where, whether a charge stands, whether a complete result is on disk
    (crash_before, ChargingWriter, "charge", False, False),
    (crash_after, ChargingWriter, "charge", True, False),
    (crash_before, os, "posix_fallocate", True, False),
    (crash_after, os, "posix_fallocate", True, False),
    (crash_before, os, "fsync", True, False),
    (crash_before, os, "link", True, False),
    (crash_after, os, "link", True, True),
    (crash_after, Path, "unlink", True, True),
    (crash_before, session_module, "sync_folder", True, True),
    (crash_after, session_module, "sync_folder", True, True),
    (crash_before, ChargingWriter, "commit", True, True),
    (crash_after, ChargingWriter, "commit", True, True),
    (crash_after, session_module, "read_result", True, True),
]


@pytest.mark.parametrize(("crash", "owner", "name", "paid", "complete"), POINTS)
def test_after_a_crash_between_any_two_steps_the_rest_is_done_once(
    ledger, session, steps, monkeypatch, crash, owner, name, paid, complete
):
    noise = Noise()
    with monkeypatch.context() as patch:
        crash(patch, owner, name)
        with pytest.raises(Crash):
            session.perform(BATCH, steps, noise)
    assert charged(session) == (session.reservation.costs["one_way"] if paid else 0)
    assert stored(session).exists() == complete
    before = len(noise.drawn)
    content = stored(session).read_bytes() if complete else None

    results = session.perform(BATCH, steps, noise)

    assert same(results, noise.drawn[-1])
    assert len(noise.drawn) == (1 if complete else before + 1)
    assert content is None or stored(session).read_bytes() == content
    assert charged(session) == session.reservation.costs["one_way"]
    assert kinds(ledger).count("charge") == len(steps)
    assert kinds(ledger).count("commit") == 1
    assert draws_of(session) == (2 if paid and not complete else 1)
    assert os.listdir(session.folder) == [f"{BATCH}.noise"]
    assert same(session.perform(BATCH, steps, noise), noise.drawn[-1])
    ledger.verify()


@pytest.mark.parametrize("fence", [1, 7])
def test_what_an_interrupted_write_left_is_erased_before_anything_is_drawn_again(
    session, steps, fence
):
    """Be it this holder's or an earlier one's."""
    session.writer.charge(session.reservation, BATCH, steps)
    session.folder.mkdir()
    left = session.folder / f"{BATCH}.noise.{fence}.tmp"
    left.write_bytes(b"half a result")
    of_another_batch = session.folder / f"{BATCH}0.noise.{fence}.tmp"
    of_another_batch.write_bytes(b"being drawn")
    seen = []

    def draw(grants):
        seen.append(left.exists() and b"half a result" in left.read_bytes())
        return Noise()(grants)

    session.perform(BATCH, steps, draw)
    assert seen == [False]
    assert not left.exists()
    assert of_another_batch.read_bytes() == b"being drawn"


@pytest.mark.parametrize("committed", [False, True])
def test_what_a_late_holder_left_beside_a_stored_result_is_erased(
    session, steps, monkeypatch, committed
):
    noise = Noise()
    with monkeypatch.context() as patch:
        crash_after(patch, ChargingWriter, "commit") if committed else crash_before(
            patch, ChargingWriter, "commit"
        )
        with pytest.raises(Crash):
            session.perform(BATCH, steps, noise)
    (session.folder / f"{BATCH}.noise.7.tmp").write_bytes(b"a second draw, cut short")
    assert same(session.perform(BATCH, steps, noise), noise.drawn[0])
    assert os.listdir(session.folder) == [f"{BATCH}.noise"]


@pytest.mark.parametrize("cut", [5, 100, 39])
def test_a_torn_result_may_have_been_read_and_is_never_drawn_again(
    session, steps, uncommitted, cut
):
    noise = uncommitted
    whole = stored(session).read_bytes()
    stored(session).write_bytes(whole[:-cut])
    with pytest.raises(StageFailed, match="never drawn again"):
        session.perform(BATCH, steps, noise)
    assert len(noise.drawn) == 1
    assert stored(session).read_bytes() == whole[:-cut]
    assert draws_of(session) == 1

    stored(session).write_bytes(whole)
    assert same(session.perform(BATCH, steps, noise), noise.drawn[0])


def test_a_result_that_cannot_be_read_now_is_kept_and_not_drawn_again(
    session, steps, uncommitted, monkeypatch
):
    def broken(_path):
        raise OSError(errno.EIO, "Input/output error")

    noise = uncommitted
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", broken)
        with pytest.raises(OSError, match="Input/output"):
            session.perform(BATCH, steps, noise)
    assert same(session.perform(BATCH, steps, noise), noise.drawn[0])
    assert len(noise.drawn) == 1


@pytest.mark.parametrize(("number", "shape"), [(100, ()), (0, (1,))], ids=["charge", "shape"])
def test_the_result_of_another_charge_or_shape_is_not_taken_for_this_one(
    session, steps, number, shape
):
    charges = session.writer.charge(session.reservation, BATCH, steps)
    others = [
        session_module.Grant(charge.number + number, replace(step, shape=(*step.shape, *shape)))
        for charge, step in zip(charges, steps, strict=True)
    ]
    session_module._draw_and_store(stored(session), others, session._header(others), 1, Noise())
    ours = Noise()
    with pytest.raises(StageFailed, match="or another's"):
        session.perform(BATCH, steps, ours)
    assert ours.drawn == []


def test_after_too_many_draws_a_person_has_to_look(session, steps):
    for _ in range(MOST_DRAWS):
        with pytest.raises(Crash):
            session.perform(BATCH, steps, dies)
    with pytest.raises(StageFailed, match=rf"drawn {MOST_DRAWS} times"):
        session.perform(BATCH, steps, dies)


def test_a_full_disk_is_found_before_anything_is_drawn(session, steps, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    noise = Noise()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(StageFailed) as failed:
            session.perform(BATCH, steps, noise)
    assert "The disk is full" in failed.value.message
    assert "then resume" in failed.value.message
    assert noise.drawn == []
    assert charged(session) == session.reservation.costs["one_way"]
    assert same(session.perform(BATCH, steps, noise), noise.drawn[0])
    assert charged(session) == session.reservation.costs["one_way"]


def test_space_is_allocated_for_exactly_what_will_be_written(session, steps, monkeypatch):
    asked = []
    original = os.posix_fallocate
    monkeypatch.setattr(
        os, "posix_fallocate", lambda *where: asked.append(where[1:]) or original(*where)
    )
    session.perform(BATCH, steps, Noise())
    assert asked == [(0, stored(session).stat().st_size)]


# -- two holders, of whom the first was taken for dead


def assert_one_result(ledger, session, steps, take_over, values):
    """One result is stored, it is the committed one, and whoever comes next reads it."""
    assert os.listdir(session.folder) == [f"{BATCH}.noise"]
    assert kinds(ledger) == ["reserve"] + ["charge"] * len(steps) + ["commit"]
    with take_over() as other:
        assert same(other.perform(BATCH, steps, None), values)
    ledger.verify()


def test_a_holder_that_was_taken_over_is_refused_and_its_late_result_erased_unread(
    ledger, session, steps, take_over
):
    """It slept during its draw, and another drew, stored and committed meanwhile."""
    ours, theirs = Noise(), Noise(start=500)
    measuring = granted(session, "measure")

    def slow(grants):
        with take_over() as other:
            other.perform(BATCH, steps, theirs)
        return ours(grants)

    with pytest.raises(StageFailed, match="Another process took over release 'first'"):
        session.perform(BATCH, steps, slow)
    assert (len(ours.drawn), len(theirs.drawn)) == (1, 1)
    with pytest.raises(StageFailed, match="Another process took over release 'first'"):
        measuring.perform("measure-0", [replace(steps[0], stage="measure")], ours)
    assert len(ours.drawn) == 1
    assert_one_result(ledger, session, steps, take_over, theirs.drawn[0])


def test_a_result_that_the_next_holder_erased_before_it_was_stored_is_not_stored(
    ledger, session, steps, take_over
):
    """It slept during its draw, and the next holder died before it drew again."""
    ours, theirs = Noise(), Noise(start=500)

    def slow(grants):
        with take_over() as other, pytest.raises(Crash):
            other.perform(BATCH, steps, dies)
        return ours(grants)

    with pytest.raises(StageFailed, match="Another process took over release 'first'"):
        session.perform(BATCH, steps, slow)
    assert len(ours.drawn) == 1
    assert not stored(session).exists()
    with take_over() as other:
        assert same(other.perform(BATCH, steps, theirs), theirs.drawn[0])
    assert_one_result(ledger, session, steps, take_over, theirs.drawn[0])


def test_a_holder_that_was_taken_over_before_its_draw_gives_way_to_the_stored_result(
    ledger, session, steps, take_over, monkeypatch
):
    """It slept after its charge; its own draw finds the name taken (FileExistsError)."""
    ours, theirs = Noise(), Noise(start=500)
    charge = ChargingWriter.charge

    def slow(*args):
        charges = charge(*args)
        monkeypatch.setattr(ChargingWriter, "charge", charge)
        with take_over() as other:
            other.perform(BATCH, steps, theirs)
        return charges

    monkeypatch.setattr(ChargingWriter, "charge", slow)
    with pytest.raises(StageFailed, match="Another process took over release 'first'"):
        session.perform(BATCH, steps, ours)
    assert (len(ours.drawn), len(theirs.drawn)) == (1, 1)
    assert_one_result(ledger, session, steps, take_over, theirs.drawn[0])


def test_the_first_result_that_was_stored_is_the_one_even_if_it_is_the_late_holders(
    ledger, session, steps, take_over
):
    """It slept after its charge and stored while the next holder was drawing."""
    ours, theirs = Noise(), Noise(start=500)
    charges = session.writer.charge(session.reservation, BATCH, steps)
    grants = [
        session_module.Grant(charge.number, step)
        for charge, step in zip(charges, steps, strict=True)
    ]

    def draw(other_grants):
        values = theirs(other_grants)
        header = session._header(grants)
        session_module._draw_and_store(stored(session), grants, header, 1, ours)
        return values

    with take_over() as other:
        results = other.perform(BATCH, steps, draw)
    assert (len(ours.drawn), len(theirs.drawn)) == (1, 1)
    assert same(results, ours.drawn[0])
    with pytest.raises(StageFailed, match="Another process took over release 'first'"):
        session.writer.commit(session.reservation, BATCH, "0" * 64)
    assert_one_result(ledger, session, steps, take_over, ours.drawn[0])


class Watched(np.ndarray):
    """Noise at which nobody may look."""

    def _looked(self, *_args, **_keywords):
        pytest.fail("looks at drawn values")

    __getitem__ = __iter__ = __bool__ = __repr__ = _looked
    __array_ufunc__ = __array_function__ = _looked


def test_nothing_looks_at_the_values_between_the_draw_and_the_store(session, steps):
    def draw(grants):
        return [np.zeros(grant.step.shape, dtype=np.int64).view(Watched) for grant in grants]

    assert session.perform(BATCH, steps, draw)


@pytest.mark.parametrize("value", [0, -1, 1, 2**63 - 1, -(2**63)])
def test_the_stored_size_does_not_depend_on_what_was_drawn(session, steps, value):
    def draw(grants):
        return [np.full(grant.step.shape, value, dtype=np.int64) for grant in grants]

    results = session.perform(BATCH, steps, draw)
    assert all((values == value).all() for _, values in results)
    header = len(stored(session).read_bytes()) - 8 * sum(step.shape[0] for step in steps)
    assert header < 400
