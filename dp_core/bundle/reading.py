"""Reads a bundle for the analysis of its sets, after verification."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dp_core.bundle.files.codebook import MARGINALS
from dp_core.bundle.files.marginals_file import Measured, read_marginals
from dp_core.bundle.statement.release_json import STATEMENT, origin_of
from dp_core.bundle.verification.claims import Claims, read_claims
from dp_core.bundle.verification.files_check import check_files
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from dp_core.inference.combine import Rule, known_rule
from dp_core.inference.combining_rules import Origin


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A release that was read.

    Attributes:
        folder: Folder of the bundle.
        claims: Claims of its statement.
        rule: Rule by which its sets are combined; None if it has no sets.
        records: Number of records of the file: public, or estimated from noisy tables.
        measured: All measurements.
        origin: Origin of the synthetic records.
    """

    folder: Path
    claims: Claims
    rule: Rule | None
    records: float
    measured: Sequence[Measured]
    origin: Origin = "modelled"

    @property
    def declared(self) -> tuple[str, ...]:
        """Formulas of the declared analyses."""
        found = self.claims.plan["spec"].get("analyses", {})
        return tuple(found.get("formulas", ()))


def read_bundle(folder: Path) -> Bundle:
    """Return a bundle that verifies; additional files in its folder are allowed.

    Raises:
        BadInput: if the folder is not a bundle, or the bundle was changed.
    """
    found = verify(folder)
    document: dict[str, Any] = {}
    for check in found.failures:
        if check.name == "files":
            document = json.loads((folder / STATEMENT).read_bytes())
            listed = {*document["files"], STATEMENT}
            wrong = check_files(
                folder, {name for name in listed if (folder / name).exists()}, document
            )
            if isinstance(wrong, str):
                continue
            raise BadInput(_not_whole(folder, wrong[0]))
        if not check.decided:
            raise BadInput(f"{folder} cannot be read as a release here: {check.sentence}")
        raise BadInput(_not_whole(folder, check.sentence))
    document = document or json.loads((folder / STATEMENT).read_bytes())
    claims = read_claims(document)
    stated = cast("dict[str, Any]", document["inference"])
    measured = read_marginals(folder / MARGINALS)
    return Bundle(
        folder=folder,
        claims=claims,
        rule=known_rule(stated["rule"]) if claims.sets else None,
        records=float(document["sets"]["records"]["value"]),
        measured=measured,
        origin=origin_of(claims.plan),
    )


def _not_whole(folder: Path, sentence: str) -> str:
    return f"{folder} is not a release as it was published: {sentence} Download it again."
