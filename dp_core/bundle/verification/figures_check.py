"""Checks of the quality figures in the statement's `checks`, and of the rules between columns.

Each charged figure must have a receipt. The reference counts are recomputed from the published
sets; their hash must be the one in the receipt, which was recorded before the file was queried. The
public figures are recomputed from noisy tables, interactions and sets, with or without thresholds.

Every row of the sets must obey the combinations that the schema calls impossible, its rules between
columns, and its maps of areas (`within`). For linked tables, rules that count members are checked
for every household.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from dp_core.accounts.plain_entries import result_hash
from dp_core.bundle.best_set import set_in_words
from dp_core.bundle.files.codebook import synthetic_path
from dp_core.bundle.files.linked_sets import (
    LinkedSet,
    codes_of_set,
    households_with_members,
    join_households,
    read_linked_set,
)
from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.bundle.quality.table_fit import TableFit, mean_tvd, ruled_tables
from dp_core.bundle.verification.claims import Charge, Claims
from dp_core.bundle.verification.examined import Examined, counts_of_sets
from dp_core.errors import BadInput
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.methods.reconstruction.estimates.pooled_parts import pooled_records
from dp_core.metrics.noise_size import Noise
from dp_core.metrics.quality_figures import charged_json
from dp_core.plan.quality_checks import public_figures, reference_counts
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import RuleRows, Units
from dp_core.schema.rules.row_rules import RowRule, row_rules
from dp_core.schema.structure.member_rules import households_that_break

_SAME = 2e-6
"""Largest difference between the results of two machines in a figure of six digits."""


def check_figures(bundle: Examined) -> str | tuple[str, ...]:
    """Return that the published figures agree with receipts and files, or which do not."""
    claims, stated = bundle.claims, bundle.document["checks"]
    planned = claims.plan["spec"].get("checks", {})
    if set(stated) != {"public", "charged"}:
        return ("The statement's checks do not consist of public and charged figures.",)
    tables = [tuple(str(name) for name in table) for table in planned.get("tables", ())]
    paid = [charge for charge in claims.charges if charge.stage == "checks"]
    records, wrong = bundle.records, list[str]()
    estimated = not claims.relation.rows_public and (claims.schema.totals or not claims.sets)
    if estimated and records != pooled_records(claims.schema.domain, bundle.measured):
        wrong.append("The number of records does not follow from the noisy tables.")
    if tables:
        tallies = counts_of_sets(bundle.folder, claims.schema, range(1, claims.sets + 1), tables)
        references = tuple(reference_counts(tallies, tables, records))
        asked = TableChecks(tuple(tables), references, claims.relation.shares)
        wrong += _charge_faults(stated["charged"], asked.asks(), paid, claims, records)
    elif paid or stated["charged"]:
        wrong.append("Charged checks are stated or paid for, but the plan has none.")
    named = [set(item) == {"figure", "value"} and item["figure"] for item in stated["public"]]
    # privacy: only charged figures about the confidential data may be published, under any name.
    if named and named != [figure.name for figure in public_figures([], [], 0)]:
        wrong.append("The public checks are not those of every statement.")
    elif named or any(item["figure"] == "fit" for item in planned.get("thresholds", ())):
        wrong += _public(stated["public"], bundle.fits)
    if claims.best is not None and (named or claims.best.tvd is not None):
        made = mean_tvd(bundle.fits_of_best)
        if made is not None and not same_figure(claims.best.tvd, made):
            wrong.append("The distance of the best set does not follow from noisy tables and set.")
    if wrong:
        return tuple(wrong)
    if not tables:
        return "No check of the confidential data was charged or published."
    return (
        f"{len(tables)} checks of the confidential data, charged by receipt {paid[0].number},"
        " agree with counts recomputed from the published sets."
    )


def _charge_faults(
    stated: Any, asked: Mapping[str, object], paid: list[Charge], claims: Claims, records: int
) -> list[str]:
    if len(paid) != 1:
        return [f"{len(paid)} receipts paid for the checks instead of one."]
    (charge,) = paid
    number = charge.number
    if canonical_json(charge.asks) != canonical_json(asked):
        return [f"Receipt {number} is for other tables or for counts that the sets do not have."]
    if not isinstance(charge.event, LaplaceEvent | GaussianEvent):
        return [f"Receipt {number} did not pay for noise on the checks."]
    noise: Noise = "laplace" if isinstance(charge.event, LaplaceEvent) else "gaussian"
    scale = float(charge.event.scale)
    distances = [item["distance"] for item in stated]
    if any(type(distance) is not int for distance in distances):
        return ["The distance of a charged check is not a whole number."]
    made = [
        charged_json(table["table"], distance, noise, scale, records, number)
        for table, distance in zip(stated, distances, strict=True)
    ]
    tables: Any = asked["tables"]
    if [item["table"] for item in stated] != tables or canonical_json(stated) != canonical_json(
        made
    ):
        return ["A charged check does not follow from its receipt and its distance."]
    drawn = np.array(distances, dtype=np.int64)
    if claims.committed.get(charge.batch) != result_hash([(number, drawn)]):
        return ["The distances of the charged checks are not those that were committed."]
    return []


def _public(stated: Any, fits: Sequence[TableFit]) -> list[str]:
    """Return what is wrong with the public figures, recomputed from noisy tables and sets."""
    made = public_figures(
        [value for fit in fits for value in fit.set_tvd],
        [value for fit in fits for value in fit.expected_tvd],
        len(fits),
    )
    values = {item["figure"]: item["value"] for item in stated}
    if set(values) != {figure.name for figure in made} or len(values) != len(stated):
        return ["The public checks are not those of every statement."]
    for figure in made:
        if not same_figure(values[figure.name], figure.value):
            return [f"The public check {figure.name!r} does not follow from noisy tables and sets."]
    return []


def same_figure(stated: Any, made: object) -> bool:
    """Return whether a stated figure is the computed one, up to the precision of machines.

    A text such as "nan" is not accepted as a number.
    """
    if isinstance(made, int | float):
        return type(stated) in (int, float) and abs(stated - made) <= _SAME
    return bool(stated == made)


_Rules: TypeAlias = tuple[RowRule[Any], ...]
_Read: TypeAlias = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Returns some columns of all rows."""


def check_rules(bundle: Examined) -> str | tuple[str, ...]:
    """Return that all rows obey the rules and that the statement says so, or what is wrong."""
    folder, claims = bundle.folder, bundle.claims
    schema = claims.schema.coarse or claims.schema
    rules = [*dict.fromkeys(rule.text for rule in row_rules(schema))]
    rules += [rule.text for rule in schema.member_rules]
    if not rules:
        return "The schema states no rules between columns."
    wrong = []
    for number in claims.numbers:
        path = (
            synthetic_path(number) if schema.linked is None else set_in_words(number).capitalize()
        )
        try:
            data = None if schema.linked is None else read_linked_set(folder, schema, number)
            found = [
                what
                for rules_of, read in _rows_with_rules(folder, schema, number, data)
                for what in _rule_faults(schema, rules_of, read)
            ]
            broken = [*dict.fromkeys(found), *_broken_counts(schema, data)]
        except (OSError, pa.ArrowException, ValueError, LookupError, BadInput):
            wrong.append(f"{path} cannot be compared with the rules of its schema.")
            continue
        wrong += [f"{path} {what}" for what in broken]
    if not wrong and claims.sets and (schema.rules or schema.member_rules):
        stated = bundle.document["sets"]["rules"]
        made = ruled_tables(claims.schema, bundle.fits) or {}
        wrong += [
            f"'sets.rules.{name}' of the statement does not follow from tables and sets."
            for name, value in made.items()
            if not same_figure(stated[name], value)
        ][:1]
    if wrong:
        return tuple(wrong)
    which = f"{len(rules)} rules" if len(rules) > 1 else "rule"
    what = "row and household" if schema.member_rules else "row"
    return f"Every {what} of the sets obeys the {which} of the schema."


def _rows_with_rules(
    folder: Path, schema: Schema, number: int, data: LinkedSet | None
) -> Iterator[tuple[_Rules, _Read]]:
    """Yield rules, and a function that reads the rows of a set to which they apply.

    In linked tables, rules over household columns and `members` apply to all households, with or
    without members. All other rules apply to all persons, each with its household. A rule about
    another member repeats one about a member.
    """
    linked, rules = schema.linked, row_rules(schema)
    if linked is None or data is None:
        yield rules, partial(read_parquet, folder / synthetic_path(number))
        return
    rules = tuple(each for each in rules if not {*linked.others} & {*each.columns})
    homes = {*linked.household_columns, MEMBERS}
    for of_homes, table in (
        (True, households_with_members(data)),
        (False, join_households(schema, data)),
    ):
        part = tuple(each for each in rules if ({*each.columns} <= homes) == of_homes)
        yield part, partial(_batches, table)


def _batches(table: pa.Table, names: Sequence[str]) -> Iterable[pa.RecordBatch]:
    yield from table.select(list(names)).unify_dictionaries().combine_chunks().to_batches()


def _rule_faults(schema: Schema, rules: _Rules, read: _Read) -> list[str]:
    """Return what is wrong with the rows of a set: rules that they break, values off their unit.

    Rules compare values in whole units. A value with more digits than `decimals` would be rounded
    before it is judged, so it is a fault of its own. Of linked tables a rule about another member
    repeats one about a member, which is judged for every person.

    Args:
        schema: The schema as written.
        rules: The rules.
        read: Yields columns of the rows.
    """
    named = {name for rule in rules for name in rule.columns}
    if not named:
        return []
    columns = [column for column in schema.columns if column.name in named]
    units: dict[str, Units] = {each.column: each for rule in rules for each in rule.units}
    found: dict[str, None] = {}
    finer: dict[str, None] = {}
    for batch in read([column.name for column in columns]):
        arrays = {column.name: batch.column(column.name) for column in columns}
        codes = {column.name: codes_of(column, arrays[column.name]) for column in columns}
        values = {name: schema.column(name).scale.values_in(arrays[name]) for name in units}
        rows = RuleRows(
            codes,
            {
                column.name: codes[column.name] == column.missing_code
                for column in columns
                if column.missing_code is not None
            },
            {name: each.of(values[name]) for name, each in units.items()},
            batch.num_rows,
        )
        finer |= {
            name: None
            for name, each in units.items()
            if not each.edges
            and values[name].dtype.kind == "f"
            and (values[name] != rows.units[name] / 10.0**each.decimals).any()
        }
        found |= {rule.text: None for rule in rules if rule.breaks(rows).any()}
    return [
        *(f"has rows that break the rule {text:.80}." for text in found),
        *(
            f"has values of {name!r:.40} with more decimals than its schema states."
            for name in finer
        ),
    ]


def _broken_counts(schema: Schema, data: LinkedSet | None) -> list[str]:
    """Return which rules that count members a household of a set breaks."""
    if schema.linked is None or data is None or not schema.member_rules:
        return []
    rows = codes_of_set(schema, data)
    return [
        f"has households that break the rule {rule.text:.80}."
        for rule in schema.member_rules
        if households_that_break(rule, schema.linked.person_columns, rows).any()
    ]
