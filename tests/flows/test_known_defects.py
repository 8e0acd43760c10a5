"""Defects that were found in the budget ledgers of other systems, each shown not to be here."""

from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from dp_core.client.curator import Curator
from dp_core.kernel.counting.stored_rows import StoredRows
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from tasks.ledger.charging.ledger_session import LedgerSession
from tests.confidential_side import InThisProcess, confidential_run
from tests.flows.conftest import plainly

pytestmark = pytest.mark.usefixtures("quick")


class Touched(Exception):
    """The data were looked at."""


class Untouchable:
    """A counter that must not be asked."""

    def count(self, _cliques):
        raise Touched


@pytest.fixture
def begun(project):
    """A release that is bound to its input, has charged nothing, and is still held."""
    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec
    from flows.releases.opening import Opening
    from tasks.confidential.client import Client
    from tasks.stages.identify import identify

    with ExitStack() as opened:
        opening = Opening(
            make_plan(load_spec(project.spec)),
            project.spec,
            project.out,
            opened,
            Client(InThisProcess),
        )
        opening.open()
        plainly(identify, opening.run)
        side = confidential_run(opening.run)
        side.writer.judge(side.reservation, "fits")
        yield opening.run


def curator_of(run, counter):
    writer = confidential_run(run).writer
    grant = writer.grant(run.reservation, run.plan.hash, "basics")
    ledger_session = LedgerSession(
        writer, run.reservation, Relation("add-remove"), run.folder.noisy, grant
    )
    domain = run.spec.schema.domain
    rows = domain.size(("age",))  # of `begun_counter`, one in each cell
    return Curator(Kernel(domain, counter, ledger_session, StoredRows(rows, rows)))


def begun_counter(run):
    import numpy as np

    from dp_core.kernel.counting.marginal import Marginal

    class Counter:
        def count(self, cliques):
            return {
                clique: Marginal(
                    run.spec.schema.domain.project(clique),
                    np.ones(run.spec.schema.domain.project(clique).sizes, dtype=np.int64),
                )
                for clique in cliques
            }

    return Counter()


def test_a_measurement_that_raises_an_error_leaves_its_charge(begun):
    """Where the charge comes after the query, an error makes the query free."""
    curator = curator_of(begun, Untouchable())
    cost = begun.reservation.costs["one_way"]
    with pytest.raises(Touched):
        curator.measure("one_way", [("age",)], [cost])
    (charge,) = begun.ledger.charges(begun.reservation)
    assert (charge.cost, charge.result) == (cost, None)


def test_the_charge_is_durable_before_the_data_are_counted(begun, project):
    """A check that "ran" as a lazy step, which no action ever executed, checks nothing."""
    seen = []

    class Looking:
        def count(self, cliques):
            engine = sa.create_engine(f"sqlite:///{project.home / 'ledger.db'}")
            with engine.connect() as other:
                rows = other.exec_driver_sql("SELECT kind FROM entries").scalars().all()
            engine.dispose()
            seen.append(rows.count("charge"))
            return begun_counter(begun).count(cliques)

    curator_of(begun, Looking()).measure(
        "one_way", [("age",)], [begun.reservation.costs["one_way"]]
    )
    assert seen == [1]
