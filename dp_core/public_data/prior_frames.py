"""Turns public frames, or the sets of a release in memory, into a prior for a release in memory."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dp_core.methods.prior.public_prior import PublicPrior
from dp_core.priors.prior_records import prior_of_tables
from dp_core.public_data.frame_columns import frame_columns
from dp_core.schema.definition import Schema
from dp_core.text.canonical import digest

if TYPE_CHECKING:
    import pandas as pd


def prior_of_frames(
    frames: Sequence[pd.DataFrame], schema: Schema, *, apart: bool = False
) -> PublicPrior:
    """Return public frames as a prior: one of public records, or the sets of a release in memory.

    Args:
        frames: The frames; at least one.
        schema: Schema of the release that uses the prior.
        apart: Whether differences between them show noise; False by default.

    Raises:
        BadInput: if a column cannot be read, or fewer than two columns match the schema.
        TypeError: if one is not a pandas frame.
    """
    tables = [frame_columns(frame, schema) for frame in frames]
    found = prior_of_tables(tables, schema, apart=apart, document=())
    hashes = [hashlib.sha256(np.ascontiguousarray(codes).tobytes()) for codes in found.sets]
    document = (
        ("frame", "in memory"),
        ("sha256", digest([found.domain.columns, [each.hexdigest() for each in hashes]])),
    )
    return dataclasses.replace(found, document=document)
