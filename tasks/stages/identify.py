"""The stage `identify`: binds a release to its input, so that no other file can be measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from dp_core.errors import DataRefused
from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("identify")
def identify(run: ConfidentialRun) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input.

    All data are bound together, and each part by itself: each of several files, of linked tables
    and of a panel's waves. So a part alone, or with other parts, belongs to the same account.

    Privacy:
        The keyed hashes are stored in the ledger's sealed table and in the confidential folder
        only.

    Raises:
        BadInput: if the release is bound to another input.
        DataRefused: if the prior that the spec declares public is a file of the input.
    """
    from dp_core.confidential.source import keyed_digests

    source = run.opened
    _refuse_as_prior(source.files, dict(run.spec.prior.document) if run.spec.prior else {})
    digests = keyed_digests(source, run.key)
    run.writer.bind_input(run.reservation, digests.whole, run.key, digests.parts)
    run.folder.belong_to(digests.whole)


def _refuse_as_prior(files: Sequence[Path], prior: Mapping[str, str]) -> None:
    """Refuse an input if one of its files is the file that is declared public as the prior.

    Args:
        files: Files of the input.
        prior: What the plan states about the prior; empty without one.

    Privacy:
        Records of a prior enter the sets without noise. The ledger cannot know a file that was
        never an input, so the release compares the two. The unkeyed hashes stay in memory.

    Raises:
        DataRefused: if one of them is.
    """
    if "file" not in prior:
        return
    for path in files:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == prior["sha256"]:
                raise DataRefused(
                    "The prior is a file of this release's own input, so it is confidential. The"
                    " ledger counts a refused attempt. Name a public file under `prior`, or remove"
                    " the key.",
                    row="public-data-known",
                )
