"""Which row of docs/runbook.md a message belongs to, so that whoever meets it finds what to do.

The page quotes the same fixed pieces; a test holds the two together, and another provokes each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

GAP = "…"
"""In a piece: here the message has names and numbers of its own."""

ROWS: Mapping[str, tuple[str, ...]] = {
    # The release stopped, and nothing is wrong with the ledger.
    "disk-full": ("The disk is full",),
    "not-written": ("could not be written (… check the folder, then resume",),
    "interrupted": ("Interrupted. Nothing is lost",),
    "stage-failed": ("Stage … failed (… may be confidential,",),
    "outside-stages": ("stopped outside its stages",),
    "server-slow": ("Prefect's own server did not start in time",),
    "result-of-stage-gone": ("has not left its result",),
    "set-gone": ("is missing from the run's folder",),
    "codes-damaged": ("The store of codes",),
    "nothing-kept": ("threshold removed everything",),
    "links-gone": ("is no link any more",),
    "clock-off": ("The clock of this machine and that of the ledger's database differ",),
    "bundle-not-handed-over": ("The bundle does not verify",),
    "dask-unreachable": ("The Dask scheduler … does not answer",),
    "dask-lost": ("The Dask scheduler was lost",),
    "dask-workers-died": ("Every Dask worker that was given a part of a count died",),
    "dask-no-worker": ("The Dask cluster has had no worker",),
    "dask-worker-differs": (
        "The Dask worker … has … and this process has",
        "The Dask worker … has no",
        "The Dask worker … cannot import",
    ),
    "dask-worker-sees-nothing": ("The Dask worker … does not see",),
    "dask-in-clear": ("would be sent exact counts in clear",),
    # Who works on it.
    "at-work": ("Another process is working on release",),
    "taken-over": ("Another process took over release", "another process works on the same"),
    "other-home": ("was begun in another home",),
    "reservation-gone": ("no longer holds its reservation",),
    # A person decides.
    "held": ("is held since … and waits for a person",),
    "held-changed": (
        "What was held of release … is missing or was changed",
        "changed since release … was held",
        "is held for a person, and spec or schema changed since",
    ),
    "held-elsewhere": ("The internal files of release … are not in this home",),
    "ended-by-thresholds": ("ended without a bundle, by the thresholds of its spec",),
    "not-held": ("is not held, so there is nothing to decide", "it is decided about once"),
    # Noisy results.
    "committed-result-gone": ("The committed noisy result",),
    "result-damaged": ("is damaged or another's, and may have been read",),
    "result-not-as-stored": ("was not what was stored",),
    "drawn-too-often": ("without its result reaching the disk",),
    "result-without-charge": ("ledger has no charge for",),
    "charged-otherwise": ("was charged for other measurements",),
    # Data, spec and output.
    "data-changed": ("The data of release … changed since it began",),
    "data-being-written": ("changed while the release was reading it",),
    "data-of-another-account": ("This data file belongs to account",),
    "data-not-found": ("No data file matches",),
    "data-empty": (
        "The data file … is empty",
        "has a header but not one row",
        "has columns but not one row",
    ),
    "data-damaged": (
        "is damaged or cut off; copy it again",
        "may not be read by this user",
        "has a row with more or fewer fields than its header",
        "is not UTF-8 text",
    ),
    "data-do-not-fit": ("Nothing was spent; exact counts are in",),
    "columns-differ": ("The data file … lacks", "which the schema does not describe"),
    "database-variable": (
        "The environment variable … is not set",
        "does not hold the URL of a database",
    ),
    "database-silent": ("check the URL in it, the database and the network",),
    "database-lost": ("failed or went away while table",),
    "database-right": ("may not read table",),
    "database-values": (
        "holds a value that is not of its declared type",
        "holds a value that cannot be read",
    ),
    "table-not-found": ("has no table or view",),
    "plan-changed": ("is under way with another plan",),
    "spec-of-another-release": ("The spec … is that of release",),
    "name-used": ("The name … is used: that release is",),
    "finished-already": ("is finished; its bundle is in",),
    "output-not-empty": ("The output folder … is not empty",),
    "output-unusable": ("The output folder … cannot be", "The output folder … is a "),
    "no-such-release": ("There is no release … in this ledger", "There is no run of release"),
    # Budget and approval.
    "budget-used-up": ("asks for … but account … has … left",),
    "account-closed": ("is closed: no more releases",),
    "other-relation": (
        "protects under … but the spec asks for",
        "protects one … but the schema's unit",
    ),
    "no-account": ("There is no account",),
    "waits-for-approval": ("runs approved plans only",),
    # What runs at night by itself.
    "bundles-changed": ("bundles do not verify",),
    "run-stopped": ("The run of … stopped (",),
    "tried-too-often": ("times and need a person",),
    "template-renamed": ("This run began release … and its template names it",),
    "spec-in-the-way": ("is in the way: the spec of this date is written there",),
    "spec-not-written": ("let the user that runs releases write there",),
    "several-time-zones": ("so one moment has several dates",),
    "results-stored": (
        "Prefect is set to store results",
        "Prefect is set to keep logs of runs",
        "Prefect is set to send usage data",
    ),
    "log-not-written": ("The log file … cannot be written",),
    # The ledger cannot be used.
    "ledger-silent": ("The ledger at … did not answer",),
    "ledger-not-opened": ("cannot be opened or is not a ledger",),
    "no-ledger": ("There is no ledger in", "There can be no ledger in"),
    "ledger-url": ("DP_RELEASE_LEDGER is not the URL of a ledger", "is another program's"),
    "newer-ledger": ("was made by a newer version", "this dp-release knows none after"),
    "tables-to-be-made": ("let the database's owner open the ledger once",),
    "right-missing": ("may not do this: let the database's owner",),
    "key-of-the-ledger": ("takes signed entries only", "The signing key … cannot be read"),
    "public-key": ("The public key … cannot be read", "holds no public key of a ledger"),
    "input-key-other": ("were sealed with another key than this home's",),
    # The ledger must not be used.
    "ledger-lost": ("has releases but no ledger any more",),
    "ledger-older": ("The ledger is older than what",),
    "ledger-replaced": ("Another ledger is where",),
    "head-damaged": ("The note … is damaged",),
    "input-key-gone": ("without it the ledger cannot recognise data it has seen",),
    "ledger-damaged": (
        "the database is damaged",
        "is damaged and cannot be",
        "its file is damaged beside them",
    ),
    "ledger-changed": (
        "change nothing in it; compare it with the last backup",
        "The entries of account … were changed",
        "The lease of release … was changed",
    ),
    "entry-refused": ("was not added to the ledger",),
}
"""Fixed pieces of the messages of each row, in the page's order."""


def says(piece: str, message: str) -> bool:
    """Return whether a message holds a fixed piece, whatever stands in its gaps.

    >>> says("The data of … changed", "The data of release 'town' changed since it began.")
    True
    """
    return re.search(".*?".join(map(re.escape, piece.split(GAP))), message, re.DOTALL) is not None


def row_of(message: str) -> str | None:
    """Return the row that tells what to do about a message, None where the message itself does."""
    return next(
        (row for row, pieces in ROWS.items() if any(says(piece, message) for piece in pieces)),
        None,
    )
