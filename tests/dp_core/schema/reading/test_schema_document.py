import pytest

from dp_core.schema.reading.schema_document import schema_hash
from tests.schema_texts import RAND, assert_reads_back, read


def test_the_document_reads_back_as_the_same_schema_whatever_json_does_to_it():
    schema = read(RAND)
    assert_reads_back(schema)


def test_the_hash_is_of_the_meaning_not_of_the_spelling():
    spelt = RAND.replace("max: 500000", "max: 5e5").replace(
        "rows_about: 20000", "rows_about: 020000"
    )
    block = spelt.replace(
        "sex:    {type: category, levels: {1: male, 2: female}}",
        "sex:\n    levels: [{1: male}, {2: female}]\n    type: category",
    )

    assert schema_hash(read(block)) == schema_hash(read(RAND))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{1: male, 2: female}", "{2: female, 1: male}"),
        ("bins: 24", "bins: 25"),
        ("out_of_range: reject", "out_of_range: clip"),
        ("[fair, missing]", "[fair]"),
        ("20000", "20001"),
        ("decimals: 2", "decimals: 1"),
        ('["", "?"]', '["?", ""]'),
    ],
)
def test_any_change_of_meaning_changes_the_hash(old, new):
    changed = RAND.replace(old, new)

    assert changed != RAND
    assert schema_hash(read(changed)) != schema_hash(read(RAND))


def test_the_order_of_columns_is_part_of_the_hash():
    lines = RAND.splitlines()
    lines[7], lines[8] = lines[8], lines[7]

    assert schema_hash(read("\n".join(lines))) != schema_hash(read(RAND))
