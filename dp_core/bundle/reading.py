"""A release as its analysis reads it: from a bundle, after verification, or from memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dp_core.bundle.best_set import set_in_words
from dp_core.bundle.files.codebook import MARGINALS, synthetic_path
from dp_core.bundle.files.linked_sets import LinkedSet, linked_set, read_linked_set
from dp_core.bundle.files.marginals_file import Measured, read_marginals
from dp_core.bundle.statement.release_json import STATEMENT, origin_of
from dp_core.bundle.statement.sections import declared_formulas
from dp_core.bundle.verification.claims import Facts, read_claims
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from dp_core.inference.combine import Rule, known_rule
from dp_core.inference.combining_rules import Origin
from dp_core.inference.formulas.declared_statistic import is_statistic
from dp_core.kernel.extensions import DRAWN_CELLS
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.mechanisms.event import Event
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.schema.linked.linked_decoding import TwoTables


@dataclass(frozen=True, slots=True)
class PrivateDraws:
    """Records that were drawn from the cells of one table, each with added virtual records.

    Attributes:
        columns: Columns of the table.
        cells: Number of its cells.
        kind: How the records were drawn; see `dp_core.methods.drawn_answers`.
        virtual: Virtual records in each cell.
        records: Number of records drawn.
        binned: Columns that were drawn in bins.
    """

    columns: tuple[str, ...]
    cells: int
    kind: Literal["independent", "urn"]
    virtual: Fraction
    records: int
    binned: frozenset[str]


def private_draws(
    charged: Iterable[tuple[Event, Mapping[str, Any]]], schema: Schema
) -> tuple[PrivateDraws, ...]:
    """Return the draws of records among the charges of a release, in order.

    Args:
        charged: The event of each charge, and what its step asks.
        schema: The schema that defines the codes.
    """
    found = []
    sizes = dict(zip(schema.domain.columns, schema.domain.sizes, strict=True))
    for event, asks in charged:
        if asks.get("name") != DRAWN_CELLS:
            continue
        assert isinstance(event, PerturbedDrawsEvent | PolyaUrnEvent)
        edges = dict(zip(asks["columns"], asks["edges"], strict=True))
        found.append(
            PrivateDraws(
                columns=tuple(edges),
                cells=math.prod(
                    sizes[name] if each is None else len(each) - 1 for name, each in edges.items()
                ),
                kind="urn" if isinstance(event, PolyaUrnEvent) else "independent",
                virtual=event.scale,
                records=int(asks["records"]),
                binned=frozenset(name for name, each in edges.items() if each is not None),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A release that was read.

    Attributes:
        folder: Folder of the bundle; None for a release in memory.
        claims: What its statement claims.
        rule: Rule by which its sets are combined; None if it has no sets.
        records: Number of records of the file: public, or estimated from noisy tables.
        measured: All measurements.
        origin: Origin of the synthetic records.
        draws: Private draws that the sets consist of; empty for sets from a model.
        in_memory: The synthetic sets of a release in memory by number, two tables each if tables
            are linked; None if they are in the folder.
    """

    folder: Path | None
    claims: Facts
    rule: Rule | None
    records: float
    measured: Sequence[Measured]
    origin: Origin = "modelled"
    draws: tuple[PrivateDraws, ...] = ()
    in_memory: Mapping[int, pa.Table | TwoTables] | None = None

    @property
    def place(self) -> str:
        """The folder, or that there is none."""
        return "in memory" if self.folder is None else str(self.folder)

    @property
    def declared_texts(self) -> tuple[str, ...]:
        """Declared analyses as typed: formulas, and sentences of statistics."""
        return declared_formulas(self.claims.plan)

    @property
    def declared(self) -> tuple[str, ...]:
        """Formulas of the declared regressions."""
        return tuple(text for text in self.declared_texts if not is_statistic(text))

    def read_set(self, number: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a synthetic set; `read_tables` reads one of linked tables.

        Args:
            number: Number of the set, from 1; 0 is the best set.
            columns: Names of the columns.

        Raises:
            BadInput: if its file cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.in_memory is not None:
            return cast("pa.Table", self.in_memory[number]).select(list(columns))
        assert self.folder is not None
        path = self.folder / synthetic_path(number)
        try:
            return pq.read_table(path, columns=list(columns))
        except (OSError, pa.ArrowException, ValueError):
            raise BadInput(
                f"{path} cannot be read as Parquet; download the release again."
            ) from None

    def read_tables(self, number: int) -> LinkedSet:
        """Return the two tables of a synthetic set of linked tables.

        Args:
            number: Number of the set, from 1; 0 is the best set.

        Raises:
            BadInput: if its files cannot be read.
        """
        schema = self.claims.schema
        if self.in_memory is None:
            assert self.folder is not None
            return read_linked_set(self.folder, schema, number)
        tables = cast("TwoTables", self.in_memory[number])
        return linked_set(schema, tables.households, tables.persons, name=set_in_words(number))


def read_bundle(folder: Path) -> Bundle:
    """Return a bundle that verifies; additional files in its folder are allowed.

    Raises:
        BadInput: if the folder is not a bundle, or the bundle was changed.
    """
    for check in verify(folder, more_files=True).failures:
        if not check.decided:
            raise BadInput(f"{folder} cannot be read as a release here: {check.sentence}")
        raise BadInput(
            f"{folder} is not a release as it was published: {check.sentence} Download it again."
        )
    document = json.loads((folder / STATEMENT).read_bytes())
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
        draws=private_draws(
            ((each.event, each.asks) for each in claims.payer.charges), claims.schema
        ),
    )
