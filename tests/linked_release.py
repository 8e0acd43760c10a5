"""A small release of households and persons, made in memory of generated data, and its bundle."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_core.accounts.ledger_position import Place, Total
from dp_core.accounts.memory_session import MemorySession
from dp_core.accounts.plain_entries import result_hash
from dp_core.bundle.best_set import BEST
from dp_core.bundle.files.codebook import set_name
from dp_core.bundle.files.parquet_file import write_synthetic
from dp_core.bundle.published import Published
from dp_core.bundle.writer import write_bundle
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.canonical import digest
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.document import document_hash
from dp_core.kernel.ledger.receipts import START, Receipt, make_receipt
from dp_core.methods.reconstruction.estimates.pooled_parts import pooled_records
from dp_core.plan.compiled_plan import compiled_document
from dp_core.plan.procedure import Outcome, carry_out, sample
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.public_data.memory_release import NAME, drawn_set
from dp_core.schema.reading.schema_file import parse_schema
from tests.linked_frames import pair_row_codes
from tests.measured import tally_sets

SCHEMA: Mapping[str, Any] = {
    "version": "1",
    "title": "Households of a town",
    "rows_about": "400",
    "unit": {"table": "homes", "max_members": "4"},
    "tables": {
        "homes": {
            "key": "home",
            "columns": {
                "tenure": {"type": "category", "levels": {"1": "own", "2": "rent"}},
                "income": {"type": "ordinal", "levels": {"1": "low", "2": "middle", "3": "high"}},
            },
        },
        "people": {
            "key": "nr",
            "parent": "homes",
            "link": "home_id",
            "columns": {
                "age": {
                    "type": "integer",
                    "min": "0",
                    "max": "99",
                    "edges": ["0", "18", "65", "100"],
                },
                "work": {
                    "type": "category",
                    "levels": {"1": "employed", "2": "not employed"},
                },
            },
        },
    },
    "impossible": [{"age": "<18", "work": ["employed"]}],
}


def frames(households: int = 400, seed: int = 5) -> dict[str, pd.DataFrame]:
    """Return the two tables: owners are richer, and members of a household are of like age."""
    rng = np.random.default_rng(seed)
    tenure = rng.integers(1, 3, households)
    income = np.clip(rng.integers(1, 4, households) + (tenure == 1), 1, 3)
    sizes = rng.choice([1, 2, 3, 4], size=households, p=[0.3, 0.35, 0.2, 0.15])
    home = np.arange(1, households + 1) * 10
    of = np.repeat(np.arange(households), sizes)
    start = np.cumsum(sizes) - sizes
    number = np.arange(of.size) - start[of] + 1
    old = rng.random(households) < 0.3
    age = np.where(old[of], rng.integers(60, 100, of.size), rng.integers(18, 65, of.size))
    age = np.where((number > 2) & ~old[of], rng.integers(0, 18, of.size), age)
    work = np.where((age < 18) | (rng.random(of.size) < 0.3), 2, 1)
    return {
        "homes": pd.DataFrame({"home": home, "tenure": tenure, "income": income}),
        "people": pd.DataFrame({"home_id": home[of], "nr": number, "age": age, "work": work}),
    }


VACANCIES: Mapping[str, Any] = {
    **SCHEMA,
    "unit": {"table": "homes", "min_members": "0", "max_members": "4"},
}
"""The same schema for files with vacant dwellings."""


def with_vacant(tables: Mapping[str, pd.DataFrame], vacant: int = 100) -> dict[str, pd.DataFrame]:
    """Return the two tables with vacant dwellings among the households, most of them rented."""
    rng = np.random.default_rng(8)
    tenure = np.where(rng.random(vacant) < 0.8, 2, 1)
    income = rng.integers(1, 4, vacant)
    homes = pd.DataFrame({"home": 1 + 10 * np.arange(vacant), "tenure": tenure, "income": income})
    both = pd.concat([tables["homes"], homes]).sample(frac=1, random_state=3)
    return {**tables, "homes": both.reset_index(drop=True)}


def outcome(
    data: Mapping[str, pd.DataFrame] | None = None,
    *,
    neighbours: str = "add-remove",
    sets: int = 2,
    epsilon: str = "4",
    delta: str = "1e-9",
    mode: str = "posterior",
    stages: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] = SCHEMA,
) -> tuple[Outcome, MemorySession]:
    """Return a release in memory, and the session that paid for it."""
    data = frames() if data is None else data
    schema = parse_schema(schema)
    privacy = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours}
    stated = {
        "privacy": privacy,
        "method": "auto",
        "synthesize": {"sets": sets, "seed": 3, **({"mode": mode} if sets else {})},
        **(stages or {}),
    }
    plan = memory_plan(schema, stated)
    tables = [pa.Table.from_pandas(data[name].astype(str)) for name in ("homes", "people")]
    pairs = pair_row_codes(schema, *tables)
    session = MemorySession(plan.currency, neighbours, shares=schema.linked.shares)
    counter = HouseholdCounter(MemoryCounter(pairs), schema.linked)
    return carry_out(plan, counter, session=session), session


@dataclass(frozen=True)
class Chain:
    """The receipts that a ledger would have written for a release in memory.

    `numbers` has the receipt of each grant.
    """

    receipts: tuple[Receipt, ...]
    numbers: Mapping[int, int]
    total: Total


def chain_of(made: Outcome, session: MemorySession) -> Chain:
    plan, privacy = made.plan, made.plan.spec.privacy
    receipts: list[Receipt] = []

    def add(kind: str, body: dict[str, object]) -> int:
        receipt = make_receipt(
            number=len(receipts) + 1,
            kind=kind,
            account=NAME,
            release=NAME,
            at="2026-11-20",
            body=body,
            previous=receipts[-1].hash if receipts else START,
        )
        receipts.append(receipt)
        return receipt.number

    document = plan.document()
    add(
        "reserve",
        {
            "epsilon": str(privacy.epsilon),
            "delta": str(privacy.delta),
            "neighbours": privacy.neighbours,
            **privacy.protects.stated,
            "plan": digest(document),
            "document": document_hash(compiled_document(plan)),
            "extensions": list(plan.extensions),
            "sets": plan.spec.sets,
            "mode": plan.spec.mode,
            "currency": plan.currency.to_json(),
            "costs": document["costs"],
        },
    )
    renumbered: dict[int, int] = {}
    for batch, results in session._results.items():
        drawn = []
        for grant, values in results:
            step = grant.step
            number = add(
                "charge",
                {
                    "batch": batch,
                    "stage": step.stage,
                    "step": step.name,
                    "cost": str(step.cost),
                    "event": step.event.to_json(),
                    "asks": dict(step.asks),
                },
            )
            renumbered[grant.number] = number
            drawn.append((number, values))
        add("commit", {"batch": batch, "result": result_hash(drawn)})
    total = Total(
        account=NAME,
        composition="basic",
        epsilon=Fraction(10),
        delta=Fraction(1, 10**6),
        own_delta=Fraction(0),
        opened=datetime.date(2026, 1, 7),
    )
    spent = sum((grant.step.cost for grant in session.charges), Fraction(0))
    add(
        "settle",
        {
            **{"outcome": "finished", "spent": str(spent), "seen": True},
            **{"ledger": "6d3c5c1e", "totals": [total.to_json()]},
        },
    )
    return Chain(tuple(receipts), renumbered, total)


def published_of(made: Outcome, session: MemorySession, chain: Chain | None = None) -> Published:
    """Return the release as it is published."""
    chain = chain or chain_of(made, session)
    plan, spec = made.plan, made.plan.spec
    public = spec.privacy.relation.rows_public
    rows = [model.rows for model in made.models.values()][-spec.sets :] if spec.sets else []
    return Published(
        release=NAME,
        title=spec.schema.title,
        created=datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC),
        privacy=spec.privacy,
        currency=plan.currency,
        method=spec.method,
        plan=plan.document(),
        schema=spec.schema,
        ledger="6d3c5c1e",
        account=NAME,
        receipts=chain.receipts,
        totals=(chain.total,),
        place=Place(link="c" * 64),
        released=tuple(
            dataclasses.replace(item, grant=chain.numbers[item.grant]) for item in made.released
        ),
        sets=spec.sets,
        rows=0 if spec.sets else (),
        mode=spec.mode,
        seed=spec.seed,
        records=round(sum(rows) / len(rows))
        if rows and not spec.schema.totals
        else pooled_records(spec.schema.domain, made.released),
        records_public=public,
        software={"python": "3.11"},
    )


def write(folder: Path, made: Outcome, published: Published, **options: Any) -> Path:
    """Write the bundle of a release and return its folder.

    Args:
        folder: A new folder; beside it a folder of the sets is made.
        made: The release.
        published: What is published of it.
        **options: Further arguments of `write_bundle`.
    """
    schema, linked = published.schema, published.schema.linked
    files, data = {}, []
    if published.mode == "posterior":
        best = drawn_set(made.plan, made.models, BEST).about
        published = dataclasses.replace(published, best=best)
    for number in published.numbers:
        place = files[number] = folder.parent / "sets" / set_name(number)
        tables = drawn_set(made.plan, made.models, number).records
        write_synthetic(place / f"{linked.households}.parquet", [tables.households])
        write_synthetic(place / f"{linked.persons}.parquet", [tables.persons])
        if number != BEST:
            data.append([sample(made.plan, made.models, number)])
    tallies = tally_sets(schema.domain, published.released, data)
    return write_bundle(folder, published, synthetic=files, tallies=tallies, **options)
