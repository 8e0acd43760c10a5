"""Which rows of a file break rules between columns, before a policy settles any."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.confidential.between_columns import RuleCheck
from dp_core.confidential.encoding import rule_rows
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.schema.rules.column_rules import any_holds
from dp_core.schema.rules.file_rules import Rules, file_rules


def broken_rules(schema: Rules, records: pa.RecordBatch) -> Mapping[str, NDArray[np.bool_]]:
    """Return which rows of a batch break each rule between columns, by the rule's text.

    Nothing is settled. A row with a value that the schema refuses in a column of the rule does not
    count.
    """
    rules = file_rules(schema)
    encoded = {one.name: RuleEncoder(one).encode(records.column(one.name)) for one in rules.columns}
    codes = {name: each.codes for name, each in encoded.items()}
    rows = rule_rows(rules, codes, RuleCheck(rules).units(records))
    found = {}
    for rule in rules.between:
        broken = any_holds(rule.clauses, rows)
        for name in rule.columns:
            if (bad := encoded[name].bad) is not None:
                broken = broken & ~bad
        found[rule.text] = broken
    return found
