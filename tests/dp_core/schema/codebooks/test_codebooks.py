"""Every form of codebook gives a draft that the schema reader takes, with what it states."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.bundle.files.codebook import field
from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import Codebook, Variable, levels_of
from dp_core.schema.codebooks.codebook_draft import draft_from_codebook
from dp_core.schema.codebooks.codebook_file import read_codebook
from dp_core.schema.definition import Level
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import Document, parse
from tests.schema_texts import RAND, read

FRICTIONLESS = {
    "title": "Panel",
    "description": "Adults: wave 3",
    "resources": [
        {"name": "other", "path": "other.csv", "schema": {"fields": [{"name": "x"}]}},
        {
            "name": "panel",
            "path": "panel.csv",
            "schema": {
                "missingValues": ["", "NA"],
                "primaryKey": "id",
                "fields": [
                    {"name": "id", "type": "string"},
                    {
                        "name": "sex",
                        "type": "integer",
                        "categories": [
                            {"value": 1, "label": "male"}, {"value": 2, "label": "female"}
                        ],
                        "constraints": {"required": True},
                    },
                    {
                        "name": "health",
                        "type": "string",
                        "categories": ["poor", "good"],
                        "categoriesOrdered": True,
                        "missingValues": ["", "9"],
                    },
                    {
                        "name": "age",
                        "title": "Age",
                        "unit": "years",
                        "type": "integer",
                        "constraints": {"required": True, "minimum": 0, "maximum": 99},
                    },
                    {
                        "name": "income",
                        "type": "number",
                        "constraints": {"minimum": 0.5, "maximum": 1000.25},
                    },
                    {
                        "name": "born",
                        "type": "date",
                        "format": "%d.%m.%Y",
                        "constraints": {
                            "required": True, "minimum": "1900-01-01", "maximum": "2020-12-31"
                        },
                    },
                    {"name": "owner", "type": "boolean", "constraints": {"required": True}},
                    {"name": "notes", "type": "string"},
                ],
            },
        },
    ],
}  # fmt: skip


DDI = """<?xml version="1.0"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
 <stdyDscr><citation><titlStmt><titl>Panel</titl></titlStmt></citation>
  <stdyInfo><abstract>Adults: wave 3</abstract></stdyInfo></stdyDscr>
 <dataDscr>
  <var ID="V1" name="sex"><labl>Sex</labl>
   <qstn><qstnLit>Are you male or female?</qstnLit></qstn>
   <catgry><catValu>1</catValu><labl>male</labl><catStat type="freq">7</catStat></catgry>
   <catgry><catValu>2</catValu><labl>female</labl></catgry>
   <catgry missing="Y"><catValu>9</catValu><labl>refused</labl></catgry>
   <varFormat type="numeric"/></var>
  <var ID="V2" name="health" nature="ordinal"><catgry><catValu>1</catValu><labl>poor</labl></catgry>
   <catgry><catValu>2</catValu><labl>good</labl></catgry></var>
  <var ID="V3" name="age" dcml="0" intrvl="contin"><labl>Age</labl>
   <valrng><range min="0" max="99"/></valrng><sumStat type="max">97</sumStat></var>
  <var ID="V4" name="income" dcml="2" intrvl="contin" measUnit="euros">
   <valrng><range min="0.5" max="1000.25"/></valrng><invalrng><item VALUE="-1"/></invalrng></var>
  <var ID="V5" name="born"><valrng><range min="1900-01-01" max="2020-12-31"/></valrng>
   <varFormat type="character" category="date"/></var>
  <var ID="V6" name="w" wgt="wgt" dcml="3"><valrng><range min="0" max="50"/></valrng></var>
  <var ID="V7" name="notes"><varFormat type="character"/></var>
 </dataDscr>
</codeBook>
"""


PER_VARIABLE = """\
Variable,Label,Type,Values,Min,Max,Missing,Unit,Decimals,Format
sex,Sex,category,1=male; 2=female,,,9,,,
health,Health,ordinal,"1, poor | 2, good",,,,,,
age,Age,integer,,0,99,,years,,
income,,number,0-1000.5,,,-1,,2,
born,,date,,1900-01-01,2020-12-31,,,,dd.MM.yyyy
notes,Notes,text,,,,,,,
"""
PER_LEVEL = """\
variable;label;value;value label
sex;Sex;1;male
;;2;female
health;Health;1;poor
health;;2;good
age;Age;0-99;
"""


def schema_of(folder, name, content, data=""):
    """Return the schema that the draft from a codebook is."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    book = read_codebook(path, data)
    text = draft_from_codebook(book)
    if not book.title:
        text = text.replace("title: ", "title: Panel ", 1)
    return parse_schema(Document(folder / "s.yaml", parse(text, source="s.yaml"))), text


def facts(schema, name):
    column = schema.column(name)
    ends = (column.minimum, column.maximum)
    levels = {level.text: level.label for level in column.levels}
    return column.kind, levels, ends, column.missing, column.missing_values


MALE = {"1": "male", "2": "female"}
DAYS = (Fraction(693596), Fraction(737790))


def test_a_data_package_states_a_whole_schema(tmp_path):
    schema, text = schema_of(tmp_path, "datapackage.json", FRICTIONLESS, "panel.csv")

    assert (schema.title, schema.description) == ("Panel", "Adults: wave 3")
    assert facts(schema, "sex") == ("category", MALE, (None, None), "reject", ("", "NA"))
    assert facts(schema, "health")[:2] == ("ordinal", {"poor": "poor", "good": "good"})
    assert facts(schema, "health")[3:] == ("level", ("", "9"))
    assert facts(schema, "age")[2] == (0, 99)
    assert schema.column("age").description == "Age. Unit: years"
    assert facts(schema, "income")[2] == (Fraction("0.5"), Fraction("1000.25"))
    assert (facts(schema, "born")[2], schema.column("born").format) == (DAYS, "%d.%m.%Y")
    assert list(facts(schema, "owner")[1]) == ["false", "true"]
    assert set(schema.ignore) == {"id", "notes"}
    assert "Frictionless Data Package" in text.splitlines()[1]


def test_a_table_schema_alone_is_read_and_so_is_one_that_a_package_names(tmp_path):
    table = FRICTIONLESS["resources"][1]["schema"]
    schema, _ = schema_of(tmp_path, "table.json", table)
    assert schema.domain.columns == ("sex", "health", "age", "income", "born", "owner")

    package = {"title": "Panel", "resources": [{"path": "panel.csv", "schema": "table.json"}]}
    assert schema_of(tmp_path, "p.json", package)[0].domain == schema.domain
    for outside in ("../table.json", "https://example.org/table.json"):
        package["resources"][0]["schema"] = outside
        with pytest.raises(BadInput, match="not in its folder"):
            schema_of(tmp_path, "p.json", package)


def test_ddi_codebook_states_a_whole_schema_and_its_statistics_are_not_read(tmp_path):
    schema, text = schema_of(tmp_path, "panel.xml", DDI)

    assert (schema.title, schema.description) == ("Panel", "Adults: wave 3")
    assert facts(schema, "sex") == ("category", MALE, (None, None), "level", ("", "9"))
    assert schema.column("sex").description == "Sex. Are you male or female?"
    assert facts(schema, "health")[0] == "ordinal"
    assert (facts(schema, "age")[0], facts(schema, "age")[2]) == ("integer", (0, 99))
    assert facts(schema, "income")[4] == ("", "-1")
    assert (schema.column("income").decimals, schema.column("w").role) == (2, "weight")
    assert schema.column("income").description == "Unit: euros"
    assert facts(schema, "born")[2] == DAYS
    assert schema.ignore == ("notes",)
    assert "97" not in text


def test_ddi_draft_comments_on_what_the_codebook_leaves_in_doubt(tmp_path):
    text = (
        '<codeBook><dataDscr><var name="INC"><codInstr>7 digits.\n9999999 = Not in universe\n'
        '</codInstr><varFormat type="numeric"/></var><var name="AGE"><catgry><catValu>0</catValu>'
        "<labl>Under 1</labl></catgry><catgry><catValu>90</catValu><labl>90 and over</labl>"
        '</catgry><varFormat type="numeric"/></var><var name="REC"><catgry><catValu>1</catValu>'
        "<labl>H</labl></catgry><catgry><catValu>1</catValu><labl>Household</labl></catgry>"
        "</var></dataDscr></codeBook>"
    )
    (tmp_path / "c.xml").write_text(text)
    known = {each.name: each.remarks for each in read_codebook(tmp_path / "c.xml").variables}
    for name, said in (
        ("INC", "9999999 = Not in universe: list what means missing"),
        ("AGE", "only 0 and 90 have labels"),
        ("REC", "gives '1' several labels: 'H', 'Household'"),
    ):
        (remark,) = known[name]
        assert said in remark


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_a_table_with_a_row_for_each_variable_states_a_whole_schema(mark, tmp_path):
    text = PER_VARIABLE
    if mark != ",":
        import csv
        import io

        out = io.StringIO()
        csv.writer(out, delimiter=mark).writerows(csv.reader(io.StringIO(PER_VARIABLE)))
        text = out.getvalue()
    schema, _ = schema_of(tmp_path, "codebook.csv", text)

    assert facts(schema, "sex") == ("category", MALE, (None, None), "level", ("", "9"))
    assert facts(schema, "health")[:2] == ("ordinal", {"1": "poor", "2": "good"})
    assert schema.column("age").description == "Age. Unit: years"
    assert facts(schema, "income")[2:] == ((0, Fraction("1000.5")), "level", ("", "-1"))
    assert schema.column("income").decimals == 2
    assert (facts(schema, "born")[2], schema.column("born").format) == (DAYS, "%d.%m.%Y")
    assert schema.ignore == ("notes",)


def test_a_table_with_a_row_for_each_level_states_a_whole_schema(tmp_path):
    schema, _ = schema_of(tmp_path, "codebook.csv", PER_LEVEL)

    assert facts(schema, "sex")[:2] == ("category", MALE)
    assert facts(schema, "health")[1] == {"1": "poor", "2": "good"}
    assert facts(schema, "age")[:3] == ("integer", {}, (0, 99))
    assert schema.column("sex").description == "Sex"


@pytest.mark.parametrize("listed", [True, False])
def test_plain_json_states_a_whole_schema(listed, tmp_path):
    columns = {
        "sex": {"type": "categorical", "levels": {"1": "male", "2": "female"}, "missing": "9"},
        "age": {"type": "integer", "min": 0, "max": 99, "label": "Age", "unit": "years"},
        "town": {"levels": ["north", "south"]},
    }
    as_list = [{"name": name, **column} for name, column in columns.items()]
    document = {"title": "Panel", "columns": as_list if listed else columns}

    schema, _ = schema_of(tmp_path, "c.json", document)

    assert facts(schema, "sex") == ("category", MALE, (None, None), "level", ("", "9"))
    assert facts(schema, "age")[:3] == ("integer", {}, (0, 99))
    assert list(facts(schema, "town")[1]) == ["north", "south"]


def test_the_codebook_of_a_release_gives_back_its_columns(tmp_path):
    schema = read(RAND)
    package = {"title": schema.title, "fields": [field(one) for one in schema.released]}

    drafted, _ = schema_of(tmp_path, "datapackage.json", package)

    for own in schema.columns:
        found = drafted.column(own.name)
        assert (found.kind, found.levels, found.edges) == (own.kind, own.levels, own.edges)
        assert (found.minimum, found.maximum) == (own.minimum, own.maximum)
        assert found.missing == own.missing


def test_what_a_codebook_does_not_say_is_refused_by_its_key(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("variable,label,type\nage,Age,integer\nsex,Sex,category\nx,X,\n")
    text = draft_from_codebook(read_codebook(path))
    for key, filled, then in (
        ("title", "title: P ", "columns.age.min"),
        ("columns.age.min", "min: 0 ", "columns.age.max"),
        ("columns.age.max", "max: 9 ", "columns.sex.levels"),
        ("columns.sex.levels", "levels: [a] ", "columns.x.type"),
    ):
        word = filled.partition(":")[0]
        text = text.replace(f"{word}: ", filled, 1)
        with pytest.raises(BadInput) as caught:
            parse_schema(Document(path, parse(text, source="s.yaml")))
        assert f"{then}: has no value" in caught.value.message, key


def test_a_draft_keeps_the_order_of_the_file_and_names_what_differs(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("variable,values\nsex,a;b\nage,0-9\ngone,0-9\n")

    text = draft_from_codebook(read_codebook(path), ["age", "new", " sex"], "f.csv")

    keys = re.findall(r"^  (\S.*?):", text, re.MULTILINE)
    names = [key for key in keys if not key.startswith("-")]
    assert names == ["age", "new", '" sex"']
    assert "# To complete (1 of 3 columns): new." in text
    assert "# Not in the file (1 variable of the codebook): gone." in text


BILLION = """<?xml version="1.0"?>
<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<codeBook><stdyDscr>&b;</stdyDscr></codeBook>"""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("c.xml", BILLION, "document type"),
        ("c.xml", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><codeBook/>', "document type"),
        ("c.xml", "<codeBook><a></codeBook>", "not valid XML"),
        ("c.xml", "<codeBook/>", "no variables"),
        ("c.xml", "<html></html>", "not DDI"),
        ("c.xml", '<DDIInstance xmlns="ddi:instance:3_3"/>', "not DDI Codebook"),
        ("c.json", '{"tableSchema": {"columns": []}}', "Frictionless"),
        ("c.xml", "<a>" * 5000 + "</a>" * 5000, "nested deeper"),
        ("c.json", "{", "not valid JSON"),
        ("c.json", "[" * 100_000, "JSON|nested"),
        ("c.json", "{}", "neither"),
        ("c.json", '{"resources": [{"path": "a.csv"}]}', "no resource"),
        ("c.csv", "a,b\n1,2\n", "heading `variable`"),
        ("c.csv", "variable,label\n", "no row"),
        ("c.csv", 'variable,label\n"a,b\n', "quotation marks"),
        ("c.csv", "", "is empty"),
        ("c.xlsx", "PK", "Export it"),
        ("c.pdf", "%PDF", "Export it"),
        ("c.csv", "PAR1xx", "Export it"),
        ("c.xml", '<?xml version="1.0" encoding="x-user-foo"?><codeBook/>', "Save it as UTF-8"),
        ("c.xml", '<?xml version="1.0" encoding="utf-7"?><codeBook/>', "Save it as UTF-8"),
        ("c.json", '{"resources": [{"name": "x", "schema": "a\\u0000b.json"}]}', "not in its"),
    ],
)
def test_a_codebook_that_cannot_be_read_is_refused_in_a_sentence(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput, match=words) as caught:
        read_codebook(tmp_path / name)
    assert name in caught.value.message
    assert len(caught.value.message) < 400


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12)


@given(st.dictionaries(TEXTS.filter(str.strip), TEXTS, min_size=1, max_size=6), TEXTS, TEXTS)
def test_any_texts_of_a_codebook_come_through_the_draft(pairs, name, title):
    levels = levels_of(pairs.items(), [""])
    variable = Variable(name=f"c{name}", kind="category", levels=levels, description=title)
    book = Codebook(name="c.json", form="x", variables=(variable,), title=f"t{title}")

    text = draft_from_codebook(book)

    schema = parse_schema(Document(Path("s.yaml"), parse(text, source="s.yaml")))
    assert schema.columns[0].name == f"c{name}"
    assert schema.columns[0].levels == levels


def test_equal_labels_are_told_apart_and_missing_texts_are_no_levels():
    assert levels_of([("1", "yes"), ("2", "yes"), ("3", "(missing)"), ("9", "no")], ["9"]) == (
        Level("1", "yes"),
        Level("2", "yes (2)"),
        Level("3", "(missing) (3)"),
    )
