"""Rules on schemas so small that every row can be judged in plain Python."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.decoding import codes_of
from dp_core.schema.rules.column_rules import RuleRows, any_holds
from dp_core.schema.rules.feasible_values import blocks_of
from dp_core.schema.rules.possible_codes import (
    decode,
    possible,
    possible_record,
    with_possible_values,
)
from tests.dp_core.schema.rules.small_rules import (
    RULES,
    codes_of_row,
    comparisons,
    schema_of,
    values,
)
from tests.full import examples

EVERY = values()
CODES = np.array([codes_of_row(row) for row in EVERY], dtype=np.uint16).T


def seen(schema):
    """Return every row as rules see it."""
    names = schema.domain.columns
    codes = dict(zip(names, CODES, strict=True))
    units = {name: np.array([row[name] or 0 for row in EVERY]) for name in ("a", "b", "c")}
    missing = {name: np.array([row[name] is None for row in EVERY]) for name in ("b", "c", "d")}
    return RuleRows(codes, missing, units, len(EVERY))


def read(stated):
    """Return the schema of some rules; leave out what no schema may state."""
    try:
        return schema_of(*(rule.text for rule in stated))
    except BadInput as error:
        text = str(error)
        assert "obeys this rule" in text or "alternatives" in text
        # Only a rule that all rows obey, or none, is refused for what it says.
        if "alternatives" not in text:
            told = [sum(map(rule.obeyed, EVERY)) for rule in stated]
            assert "every record" not in text or len(EVERY) in told
            assert "no record" not in text or 0 in told
        assume(False)


def obeying(stated):
    return np.array([all(rule.obeyed(row) for rule in stated) for row in EVERY])


@settings(max_examples=examples(300))
@given(RULES)
def test_a_rule_says_what_its_text_says(rule):
    schema = read([rule])
    broken = any_holds(schema.rules[0].clauses, seen(schema))
    assert broken.tolist() == (~obeying([rule])).tolist()


@settings(max_examples=examples(150))
@given(comparisons())
def test_boxes_are_exactly_the_codes_in_which_no_values_obey_a_comparison(rule):
    schema = read([rule])
    excluded = schema.zeros.mask(schema.domain)
    possible_codes = np.zeros(schema.domain.sizes, dtype=bool)
    possible_codes[tuple(CODES[:, obeying([rule])])] = True
    assert (excluded == ~possible_codes).all()


@settings(max_examples=examples(200))
@given(st.lists(RULES, min_size=1, max_size=4))
def test_codes_are_possible_exactly_if_values_obey_all_rules(stated):
    schema = read(stated)
    true = np.zeros(schema.domain.sizes, dtype=bool)
    true[tuple(CODES[:, obeying(stated)])] = True
    cells = np.indices(schema.domain.sizes).reshape(len(schema.domain), -1).astype(np.uint16)
    data = Dataset(schema.domain, np.ascontiguousarray(cells))
    found = ~schema.zeros.violations(data)
    for block in blocks_of(schema):
        found &= possible(block, data)
    assert found.tolist() == true.ravel().tolist()


@settings(max_examples=examples(200))
@given(st.lists(RULES, min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_every_decoded_row_obeys_all_rules(stated, seed):
    schema = read(stated)
    rng = np.random.default_rng(seed)
    data = Dataset(
        schema.domain,
        rng.integers(np.array([schema.domain.sizes]).T, size=(4, 50)).astype(np.uint16),
    )
    if not obeying(stated).any():
        with pytest.raises(BadInput):
            possible_record(schema, rng=rng)
        return
    data = with_possible_values(schema, schema.zeros.repair(data, rng=rng), rng=rng)
    table = decode(schema, data, rng=rng)
    for row in table.to_pylist():
        assert all(rule.obeyed(row) for rule in stated)
    for column in schema.columns:
        own = codes_of(column, table.column(column.name).combine_chunks())
        assert own.tolist() == data.column(column.name).tolist()
