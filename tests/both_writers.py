"""Both writers of a release as one, so that a test is a whole release in one process."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.ledger.ledger import Ledger
from tasks.ledger.release_writer import ReleaseWriter


class BothWriters(ReleaseWriter, ChargingWriter):
    """Writes what Prefect's process writes, and what the process with the data does."""


@contextmanager
def both_writers(ledger: Ledger, release: str, home: str) -> Iterator[BothWriters]:
    """Take the lease of a release for both, as `Ledger.lease` does for one."""
    with ledger.lease(release, home) as writer:
        yield BothWriters(writer._database, writer.lease)
