"""A complete small release made of public values only: schema, receipts, noisy tables, sets."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from dp_core.accounts.ledger_position import Place, Total
from dp_core.accounts.plain_entries import result_hash
from dp_core.accounts.requested import Privacy
from dp_core.bundle.files.codebook import set_name
from dp_core.bundle.files.parquet_file import write_synthetic
from dp_core.bundle.published import Published
from dp_core.bundle.report.example_code import Code, example_code
from dp_core.bundle.report.table_precision import pools_by_set
from dp_core.bundle.writer import write_bundle
from dp_core.client.noise_scale import sensitivities
from dp_core.kernel.canonical import digest
from dp_core.kernel.cost.currency import Currency, Kind, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.document import document_hash
from dp_core.kernel.ledger.receipts import START, Receipt, make_receipt
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.grant import TABLE
from dp_core.kernel.privacy import Noise
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.step_names import interaction_step, table_step
from dp_core.methods.bin_density.fitting import with_densities
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.compiled import kernel_document
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode
from tests.browser import CHROMIUM, Page, browser
from tests.measured import noisy_sums, noisy_table, tally_sets

NASTY = "<script>alert('x')</script> & \"quoted\""
ACCOUNT, RELEASE = "survey", "survey-2026"


def make_schema() -> Schema:
    return parse_schema(
        {
            "version": "1",
            "title": f"A survey {NASTY}",
            "rows_about": "1000",
            "columns": {
                "sex": {
                    "type": "category",
                    "levels": {"1": "female", "2": "male", "3": NASTY},
                    "missing": "level",
                    "description": "Sex, as answered.",
                },
                "age": {
                    "type": "integer",
                    "min": "12",
                    "max": "31",
                    "edges": [str(edge) for edge in range(12, 33)],
                },
                "height": {
                    "type": "number",
                    "min": "1",
                    "max": "2",
                    "edges": ["1", "1.5", "1.75", "2"],
                    "decimals": "2",
                },
                "born": {
                    "type": "date",
                    "min": "2000-01-01",
                    "max": "2009-12-31",
                    "edges": ["2000-01-01", "2005-01-01", "2010-01-01"],
                    "missing": "level",
                },
            },
        }
    )


@dataclass(frozen=True)
class Survey:
    """A file of public values, and the tables of several columns that are measured of it."""

    schema: Schema
    data: Dataset
    cliques: tuple[Clique, ...]


@dataclass
class Chain:
    """Receipts of one release, linked as the ledger links them."""

    receipts: list[Receipt]

    def add(self, kind: str, body: dict[str, object]) -> Receipt:
        receipt = make_receipt(
            number=len(self.receipts) + 1,
            kind=kind,
            account=ACCOUNT,
            release=RELEASE,
            at="2026-11-20",
            body=body,
            previous=self.receipts[-1].hash if self.receipts else START,
        )
        self.receipts.append(receipt)
        return receipt


def make_published(
    *,
    pure: bool = False,
    mode: str = "shared",
    sets: int = 2,
    rows: int = 300,
    reserved: Fraction | None = None,
    sensitivity: int = 1,
    select: str = "fixed",
    planned_rows: int | str = 300,
    records: float = 1003.25,
    max_rows: int | None = None,
    beyond: Sequence[Clique] = (),
    survey: Survey | None = None,
) -> tuple[Published, tuple[Dataset, ...]]:
    """Return a release and its sets; `reserved` falsifies the total, `sensitivity` the events.

    `select` names the method of selection in the plan; `max_rows` makes a person the unit; of
    `beyond` the interactions are measured, beside everything else. `survey` is another file.
    """
    schema, k = survey.schema if survey else make_schema(), max_rows or 1
    if max_rows is not None:
        unit = {"column": "person_id", "max_rows": str(max_rows)}
        schema = parse_schema({**schema.document, "unit": unit})
    privacy = Privacy(
        epsilon=Fraction(1),
        delta=Fraction(0) if pure else Fraction(1, 10**9),
        neighbours="add-remove",
        protects=schema.unit,
    )
    kind: Kind = "pure" if pure else "zcdp"
    noise: Noise = "laplace" if pure else "gaussian"
    currency = Currency(kind, reserved or largest_limit(kind, privacy.epsilon, privacy.delta))
    costs = {"one_way": currency.limit / 2, "measure": currency.limit / 2}
    promised = {
        "epsilon": str(privacy.epsilon),
        "delta": str(privacy.delta),
        "neighbours": privacy.neighbours,
        **privacy.protects.stated,
    }
    plan = {
        "plan_version": 1,
        "spec": {
            "release": RELEASE,
            "account": ACCOUNT,
            "privacy": promised,
            "method": "fixed",
            "schema": {"title": schema.title, "sha256": digest(schema.document)},
            "synthesize": {"sets": sets, "rows": planned_rows, "mode": mode, "seed": 7},
            "select": {"method": select},
            "reconstruct": {"method": "gum"},
        },
        "currency": currency.to_json(),
        "costs": {stage: str(cost) for stage, cost in costs.items()},
        "extensions": ["indif"],
    }
    chain = Chain([])
    document = kernel_document(
        schema,
        release=RELEASE,
        neighbours=privacy.neighbours,
        currency=currency.to_json(),
        costs=plan["costs"],
        extensions=plan["extensions"],
    )
    reservation = {
        "plan": digest(plan),
        "document": document_hash(document),
        "extensions": plan["extensions"],
        "sets": sets,
        "mode": mode,
    }
    chain.add(
        "reserve",
        {**promised, **reservation, "currency": currency.to_json(), "costs": plan["costs"]},
    )

    def pay(batch: str, stage: str, step: str, asks: Any, cost: Fraction, **most: int) -> Any:
        """Charge a question; return what a noisy answer states of it."""
        event = currency.noise_event(cost, **most)
        assert isinstance(event, LaplaceEvent | GaussianEvent)
        values = event.to_json()
        if sensitivity != 1:
            values["l1_sensitivity" if pure else "l2_sensitivity_squared"] = sensitivity
        body = {"batch": batch, "stage": stage, "step": step, "cost": str(cost)}
        grant = chain.add("charge", {**body, "event": values, "asks": asks}).number
        return {"noise": noise, "scale": float(event.scale), "stage": stage, "grant": grant}

    def commit(batch: str, drawn: Sequence[Any]) -> None:
        result = result_hash([(item.grant, item.values) for item in drawn])
        chain.add("commit", {"batch": batch, "result": result})

    rng = np.random.default_rng(7)
    codes = [np.minimum(rng.poisson(size / 3, 1000), size - 1) for size in schema.domain.sizes]
    truth = survey.data if survey else Dataset(schema.domain, np.stack(codes).astype(np.uint16))
    replicates = range(1, sets + 1) if mode == "split" else range(1)
    stages: dict[str, list[Clique]] = {
        "one_way": [(column,) for column in schema.domain.columns],
        "measure": [*survey.cliques] if survey else [("sex", "age"), ("sex", "height", "born")],
    }
    released: list[Any] = []
    for stage, cliques in stages.items():
        parts = len(cliques) + (len(beyond) if stage == "measure" else 0)
        cost = costs[stage] / (parts * len(replicates))
        for replicate in replicates:
            batch, domain = f"{stage}-{replicate}", schema.domain
            for clique in cliques:
                step = table_step(clique, replicate)
                about = pay(batch, stage, step, dict(TABLE), cost, l1=k, l2_squared=k**2)
                drawn = rng.normal(0, about["scale"], domain.project(clique).sizes)
                values = tabulate(truth, clique) + np.rint(drawn).astype(np.int64)
                released.append(
                    noisy_table(domain.project(clique), values, replicate=replicate, **about)
                )
            commit(batch, released[-len(cliques) :])
    for clique in beyond:
        of = Interaction(clique, schema.domain.project(clique).sizes)
        l1, l2_squared = sensitivities(of, privacy.relation)
        step = interaction_step(clique, 0)
        batch = "measure-0-interactions"
        about = pay(batch, "measure", step, of.to_json(), cost, l1=l1, l2_squared=l2_squared)
        drawn = np.rint(rng.normal(0, about["scale"], of.length)).astype(np.int64)
        released.append(noisy_sums(of, of.of_table(tabulate(truth, clique)) + drawn, **about))
    if beyond:
        commit("measure-0-interactions", released[-len(beyond) :])
    spent = sum(Fraction(str(r.body["cost"])) for r in chain.receipts if r.kind == "charge")
    total = Total(
        account=ACCOUNT,
        composition="basic",
        epsilon=Fraction(2),
        delta=Fraction(1, 10**6),
        own_delta=Fraction(0),
        opened=datetime.date(2026, 1, 7),
    )
    settlement = {"outcome": "finished", "spent": str(spent), "seen": True}
    chain.add("settle", {**settlement, "ledger": "6d3c5c1e", "totals": [total.to_json()]})
    published = Published(
        release=RELEASE,
        title=schema.title,
        created=datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC),
        privacy=privacy,
        currency=currency,
        method="fixed",
        plan=plan,
        schema=with_densities(schema, released),
        ledger="6d3c5c1e",
        account=ACCOUNT,
        receipts=tuple(chain.receipts),
        totals=(total,),
        place=Place(link="c" * 64),
        released=tuple(released),
        sets=sets,
        rows=rows,
        mode=cast(Any, mode),
        seed=7,
        records=records,
        software={"python": "3.11"},
    )
    chosen = [rng.integers(0, truth.rows, size=rows) for _ in range(sets)]
    return published, tuple(Dataset(schema.domain, truth.codes[:, pick]) for pick in chosen)


def tabulate(data: Dataset, clique: Clique) -> np.ndarray:
    table = np.zeros(data.domain.project(clique).sizes, dtype=np.int64)
    np.add.at(table, tuple(data.column(column).astype(int) for column in clique), 1)
    return table


def write(
    folder: Path, published: Published, data: tuple[Dataset, ...], scratch: Path, **options: Any
) -> Path:
    """Write the release's bundle and return its folder; the best set has the records of set 1."""
    files = {}
    for number in published.numbers:
        codes = data[max(number - 1, 0)]
        path = files[number] = scratch / f"{set_name(number)}.parquet"
        rng = np.random.default_rng(number)
        write_synthetic(path, [decode(published.schema, codes, rng=rng)])
    tallies = tallied(published, data)
    return write_bundle(folder, published, synthetic=files, tallies=tallies, **options)


def tallied(published: Published, data: tuple[Dataset, ...]) -> tuple[Tally, ...]:
    """Return the counts of the sets that the report needs."""
    return tally_sets(published.schema.domain, published.released, [[one] for one in data])


def code_of(published: Published) -> Code:
    """The example code in its report."""
    return example_code(published, pools_by_set(published)[0])


def written(folder: Path, **options: Any) -> Path:
    """Return the bundle of a release that `make_published` makes, below a folder."""
    return write(folder / "out", *make_published(**options), folder / "scratch")


@pytest.fixture(scope="session")
def release() -> tuple[Published, tuple[Dataset, ...]]:
    return make_published()


@pytest.fixture(scope="session")
def bundle(release: tuple[Published, tuple[Dataset, ...]], tmp_path_factory) -> Path:
    """A whole bundle; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("bundle")
    return write(folder / "out", *release, folder / "scratch")


@pytest.fixture
def broken(bundle, tmp_path) -> Path:
    """A copy to break: zcdp at delta 1e-9, and no delta set aside."""
    return Path(shutil.copytree(bundle, tmp_path / "copy"))


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[Page]:
    """A page of a real browser; the test is skipped without one."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="session")
def file(bundle) -> Path:
    """The report of the bundle."""
    return Path(bundle / "report.html")
