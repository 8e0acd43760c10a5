"""The schema as one plain document, with defaults filled in and numbers in one spelling.

The bundle contains the document, and the plan its hash; read again, it gives the same schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_core.kernel.canonical import digest
from dp_core.schema.definition import Column, Schema
from dp_core.schema.reading.calibration_reader import margins_document
from dp_core.schema.reading.code_list_reader import code_list_document
from dp_core.schema.reading.column_reader import Policies
from dp_core.schema.reading.dependency_reader import dependent_document, nested_document
from dp_core.schema.reading.domain_reader import document as private_document
from dp_core.schema.reading.stated_rules.column_rule_reader import rule_text
from dp_core.schema.reading.survey_reader import survey_document
from dp_core.schema.reading.totals_reader import totals_document
from dp_core.text.documents.node import Node
from dp_core.text.documents.strict_yaml import plain

VERSION = 1
"""Format version of schema files."""


def schema_document(
    schema: Schema, policies: Policies, columns: Mapping[str, Node], keys: Mapping[str, Node]
) -> dict[str, object]:
    """Return `Schema.document` of a schema that is otherwise complete.

    Args:
        schema: The schema, with its rules and calibration.
        policies: What holds for columns that do not state it.
        columns: Definition of each column, by name.
        keys: The keys of the file.
    """
    impossible, rules, expectations = (
        keys[key].items() if key in keys else () for key in ("impossible", "rules", "expectations")
    )
    unit, published = schema.unit, schema.publication.document()
    margins = margins_document(schema.calibration, schema)
    following = {
        each.column.name: dependent_document(each, schema.column(each.source))
        for each in schema.dependents
    }
    return {
        "version": str(VERSION),
        "title": schema.title,
        "description": schema.description,
        **({"publication": published} if published else {}),
        "unit": "row"
        if unit.column is None
        else {"column": unit.column, "max_rows": str(unit.max_rows)},
        **({} if schema.rows_about is None else {"rows_about": str(schema.rows_about)}),
        "missing_values": list(policies.missing_values),
        "out_of_range": policies.out_of_range,
        "columns": [
            {
                column.name: _column_document(column, columns[column.name].entries())
                | following.get(column.name, {})
                | nested_document(schema, column.name)
            }
            for column in schema.released
        ],
        "ignore": [one for one in schema.ignore if one not in schema.survey.replicate_weights],
        # The order of a rule's columns decides which one is set to missing.
        "impossible": [
            [
                {name: plain(condition)}
                for name, condition in rule.ordered_entries(example="- {age: 3}").items()
            ]
            for rule in impossible
        ],
        **({"rules": [rule_text(rule) for rule in rules]} if rules else {}),
        **({"calibrate": margins} if margins else {}),
        **({"totals": totals_document(schema)} if schema.totals else {}),
        **({"survey": survey} if (survey := survey_document(schema.survey)) else {}),
        **({"expectations": [plain(one) for one in expectations]} if expectations else {}),
    }


def schema_hash(schema: Schema) -> str:
    """Return the SHA-256, in hex, of the schema's canonical JSON (sorted keys, no spaces).

    Columns and levels, whose order matters, are lists, so any JSON tool keeps the hash.
    """
    return digest(schema.document)


def _column_document(column: Column, keys: Mapping[str, Node]) -> dict[str, object]:
    """Return the column as a schema states it, with defaults filled in and canonical numbers."""
    document: dict[str, object] = {"type": column.kind}
    if column.codes is not None:
        document["codes"] = code_list_document(column.codes)
        if column.grouping is not None:
            document["group"] = {
                "depth": str(column.grouping.depth),
                "keep": list(column.grouping.keep),
            }
    elif column.type.levels and column.choice is None:
        document["levels"] = [
            level.text if level.text == level.label else {level.text: level.label}
            for level in column.levels
        ]
    if column.choice is not None:
        document |= private_document(column)
    if not column.type.levels:
        scale = column.scale

        def text(value: Fraction | None) -> str:
            assert value is not None
            return scale.text(value)

        document |= {"min": text(column.minimum), "max": text(column.maximum)}
        if "edges" in keys:
            document["edges"] = [text(edge) for edge in column.edges]
        elif "bins" in keys and column.choice is None:
            document["bins"] = keys["bins"].text() if scale.periods else str(column.bins)
        if column.density != "fitted":
            document["density"] = column.density
        if column.decimals is not None:
            document["decimals"] = str(column.decimals)
        if column.format:
            document["format"] = column.format
    return document | {
        **({"role": column.role} if column.role else {}),
        "missing": column.missing,
        "missing_values": list(column.missing_values),
        "out_of_range": column.out_of_range,
        "description": column.description,
    }
