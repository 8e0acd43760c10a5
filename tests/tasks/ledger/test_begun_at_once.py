"""Processes that begin at once, on a ledger that none of them has made yet."""

import multiprocessing

from dp_core.errors import BadInput, BudgetRefused
from tasks.ledger.ledger import Ledger
from tests.ledgers import open_town, reserve
from tests.specs import plan_of


def _reserve_one(url, folder, number, start, results):
    plan = plan_of(folder / f"p{number}", release=f"r{number}", privacy="{epsilon: 1}")
    start.wait()
    ledger = Ledger(url)
    try:
        open_town(ledger)
        opened = True
    except BadInput:
        opened = False
    try:
        reserve(ledger, plan)
        results.put((opened, True, ledger.identity()))
    except BudgetRefused:
        results.put((opened, False, ledger.identity()))


def test_processes_that_begin_at_once_make_one_ledger_and_share_one_budget(ledger_url, tmp_path):
    # Forked from one process that has imported everything and opened nothing.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start, results = context.Barrier(4), context.Queue()
    workers = [
        context.Process(target=_reserve_one, args=(ledger_url, tmp_path, number, start, results))
        for number in range(4)
    ]
    for worker in workers:
        worker.start()
    answers = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert sum(opened for opened, _, _ in answers) == 1
    assert sum(granted for _, granted, _ in answers) == 2
    ledger = Ledger(ledger_url)
    assert {identity for _, _, identity in answers} == {ledger.identity()}
    assert ledger.account("town").left.main == 0
    assert [entry.kind for entry in ledger.entries()] == ["ledger", "open", "reserve", "reserve"]
    ledger.verify()
