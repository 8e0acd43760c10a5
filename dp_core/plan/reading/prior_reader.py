"""Reads the key `prior` of a spec: an earlier release or a public file that predicts dependence.

The caller passes a function that reads the records (`FindPrior`), because this room reads no bundle
and no data. The plan states the source with its hash, so another source makes another plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dp_core.errors import BadInput
from dp_core.methods.prior import PublicPrior
from dp_core.methods.reconstruction.auto import AutoReconstruction
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.replicates.posterior.posterior_tables import MOST_PAIRS
from dp_core.methods.selection.auto import Auto
from dp_core.plan.data_location import read_path
from dp_core.plan.release_spec import Mode, ReleaseSpec
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

METHOD = "auto"
"""The only method that uses a prior."""
MODES: tuple[Mode, ...] = ("posterior", "shared")
"""Modes of sets that use a prior."""
_KEYS = ("file", "by", "reason")
_EXAMPLE = "{file: public.csv, by: NAME, reason: TEXT}"
_ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq")


@dataclass(frozen=True, slots=True)
class PriorSource:
    """Where the public records of a prior are.

    Attributes:
        path: Folder of a bundle, or a file.
        by: Person who declares a file public; None for a bundle.
        reason: Reason for the declaration; None for a bundle.
    """

    path: Path
    by: str | None = None
    reason: str | None = None


FindPrior: TypeAlias = Callable[[PriorSource, Schema], PublicPrior]
"""Returns the public records in the codes of a schema; raises BadInput if they cannot be used."""


def no_prior(source: PriorSource, schema: Schema) -> PublicPrior:  # noqa: ARG001
    """Refuse a prior where none can be used, as in a comparison.

    Raises:
        BadInput: always.
    """
    raise BadInput("can only be used in a release; remove this key.")


def read_source(node: Node, folder: Path) -> PriorSource:
    """Return where the public records of a spec are.

    Args:
        node: Node of the key.
        folder: Folder of the spec, to which paths are relative.

    Raises:
        BadInput: if it is neither the folder of a bundle nor a file that a person declares public.
    """
    if isinstance(node.content, Mapping):
        keys = node.fields(_KEYS, required=_KEYS, example=_EXAMPLE)
        by, reason = (keys[name].text(example="...").strip() for name in ("by", "reason"))
        for name, said in (("by", by), ("reason", reason)):
            if not said:
                raise keys[name].error("is empty; state who declares the file public, and why.")
        return PriorSource(folder / read_path(keys["file"]), by, reason)
    path = read_path(node)
    if path.lower().endswith(_ENDINGS):
        raise node.error(
            f"{quote(path)} is a file, not the folder of a published release. A person must declare"
            f" a file public; write prior: {_EXAMPLE}."
        )
    return PriorSource(folder / path)


def check_prior(node: Node, spec: ReleaseSpec) -> None:
    """Refuse a prior if it would have no effect or is not supported yet.

    Args:
        node: Node of the key.
        spec: The spec, still without the prior.

    Raises:
        BadInput: if it cannot be used, with the reason.
    """
    stages = isinstance(spec.selector, Auto) and isinstance(
        spec.reconstructor, AutoReconstruction | Gum
    )
    if spec.method != METHOD or not stages:
        raise node.error(
            f"is only used by method: {METHOD} with its own selection and reconstruction; write"
            " that, or remove this key."
        )
    if not spec.sets:
        raise node.error("has no effect on a release without sets; remove this key.")
    if spec.mode not in MODES:
        raise node.error(
            f"has no effect on sets of mode {spec.mode}; write mode: {' or '.join(MODES)}, or"
            " remove this key."
        )
    if spec.schema.private:
        raise node.error(
            "cannot be used yet if bins or levels are chosen privately; remove this key, or state"
            " the bins and levels in the schema."
        )
    pairs = math.comb(len(spec.schema.domain), 2)
    if pairs > MOST_PAIRS:
        raise node.error(
            f"cannot be used yet with more than {MOST_PAIRS:,} pairs of columns (here {pairs:,});"
            " remove this key."
        )
