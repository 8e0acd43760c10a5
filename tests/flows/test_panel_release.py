"""A release of a panel, from the rows of its waves to the bundle."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import yaml

import dp_core
from dp_core.bundle.verification.verify import verify
from dp_core.errors import DataRefused
from dp_core.kernel.cost.composition import Terms
from dp_core.schema.panel.panel_waves import ABSENT
from tests.confidential_side import raises_inside
from tests.flows.conftest import Project
from tests.panel_files import WAVES, panel_document, panel_frame, write_waves

BY_WAVE = f"{{{', '.join(f'{wave}: wave-{wave}.csv' for wave in WAVES)}}}"
SMALL = Terms("basic", Fraction(20), Fraction("1e-4"))


def write_schema(project, name="town.schema.yaml", **keys):
    (project.folder / name).write_text(yaml.safe_dump(panel_document(**keys), sort_keys=False))


def opened(folder, home, **terms):
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder, home, {})
    rows = panel_frame()
    rows.to_csv(folder / "town.csv", index=False)
    write_waves(folder, rows)
    write_schema(project)
    project.write_spec(synthesize="{sets: 2}")
    usual = {"unit": "person", "terms": Terms("basic", Fraction(2000), Fraction("1e-4"))}
    project.open_account(**(usual | terms))
    return project


@pytest.fixture
def town(tmp_path, home):
    return opened(tmp_path / "work", home)


def assert_consistent(frame):
    """Check that in every wave all columns agree on whether the person takes part."""
    here = [frame[f"in_{wave}"] == "yes" for wave in WAVES]
    assert np.logical_or.reduce(here).all()
    for wave, yes in zip(WAVES, here, strict=True):
        assert ((frame[f"work_{wave}"] != ABSENT) == yes).all()
        assert (frame[f"income_{wave}"].notna() == yes).all()
        assert frame.loc[~yes, f"health_{wave}"].isna().all()


def test_a_release_has_a_record_for_each_person_and_verifies(town):
    run = town.release()

    assert town.faults() == {}
    statement = town.statement()
    guarantee = statement["guarantee"]
    assert (guarantee["unit"], guarantee["max_rows"]) == ("person", 1)
    assert (
        "one person (identified by id), with all their rows in the waves 2023 to 2025, added"
        in (guarantee["in_words"])
    )
    assert "in the waves 2023, 2024, 2025" in guarantee["unit_in_words"]
    for number in (1, 2):
        frame = pd.read_parquet(town.out / f"synthetic/set-{number}.parquet")
        assert 300 < len(frame) < 500
        assert_consistent(frame)
    codebook = json.loads((town.out / "datapackage.json").read_bytes())
    assert codebook["panel"]["columns"]["work"]["2024"] == "work_2024"
    fields = {one["name"]: one for one in codebook["resources"][0]["schema"]["fields"]}
    assert (fields["work_2024"]["wave"], fields["work_2024"]["variable"]) == ("2024", "work")
    assert "wave" not in fields["sex"]
    assert "id" not in fields
    assert not run.folder.confidential.exists()

    bundle = dp_core.read_bundle(town.out)
    wide, long = bundle.sets[0], bundle.sets.waves(0)
    assert list(long.columns) == ["person", "wave", "sex", "birth", "work", "income", "health"]
    assert len(long) == sum((wide[f"in_{wave}"] == "yes").sum() for wave in WAVES)
    part = long[long["wave"] == "2024"].set_index("person")
    assert (part["income"] == wide.loc[part.index, "income_2024"]).all()
    assert list(part["work"].cat.categories) == ["employed", "other"]


# -- what is refused, and what it costs


def repeated(rows):
    return pd.concat([rows, rows.iloc[[5]].assign(income="7")])


def other_value(rows):
    return rows.assign(work=rows["work"].where(rows.index != 5, "secret-word"))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("spoil", "internal", "shown"),
    [
        (repeated, "persons with several rows in wave 20", "1 person has several rows in wave 20"),
        (other_value, "work_20", "work_20"),
    ],
)
def test_a_faulty_file_is_refused_and_costs_nothing(town, command, spoil, internal, shown):
    spoil(panel_frame()).to_csv(town.folder / "town.csv", index=False)
    ended = command("run", town.spec, "--out", town.out, "--json")
    assert ended.code == 2
    assert "do not fit its schema" in ended.json["error"]
    assert town.kinds() == ["ledger", "open", "reserve", "settle"]
    told = (town.internal / "message.txt").read_text()
    assert internal in told
    assert "secret-word" not in told

    checked = command("schema", "check", town.folder / "town.schema.yaml", town.folder / "town.csv")
    assert checked.code == 2
    assert shown in " ".join(checked.out.split())


@pytest.mark.parametrize(
    ("data", "wave", "said"),
    [
        (BY_WAVE, "year", "the rows name their wave in 'year'"),
        ("town.csv", None, "names one place, but the schema has 3 waves"),
        ("{2023: a.csv, 2024: b.csv}", None, "the key '2025' is missing"),
        ("{2023: a.csv, 2024: a.csv, 2025: c.csv}", None, "same place as 2023"),
        (
            "{2023: a.csv, 2024: 's3://b/x.csv', 2025: c.csv}",
            None,
            "is stored in another kind of place",
        ),
    ],
)
def test_the_places_of_the_data_must_be_those_of_the_panel(town, command, data, wave, said):
    write_schema(town, wave=wave)
    town.write_spec(data=data)
    ended = command("plan", town.spec)
    assert ended.code == 2
    assert said in ended.err


# -- one account over all waves


def cross_section(project, data, most, account="town"):
    """Release rows of the panel as rows of persons."""
    document = panel_document()
    del document["panel"]
    for column in document["columns"].values():
        column.pop("constant", None)
    document |= {"unit": {"column": "id", "max_rows": str(most)}, "ignore": ["year"]}
    (project.folder / "rows.schema.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    keys = {"release": "rows", "data": data, "schema": "rows.schema.yaml", "account": account}
    project.write_spec(synthesize="{sets: 1}", **keys)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("data", "most"), [("town.csv", 3), ("wave-2024.csv", 1)])
def test_one_wave_and_the_panel_are_charged_to_one_account_and_refused_under_another(
    town, data, most
):
    by_wave = data != "town.csv"
    town.write_spec(data=BY_WAVE if by_wave else "town.csv", synthesize="{sets: 1}")
    write_schema(town, wave=None if by_wave else "year")
    town.release()
    town.open_account("second", unit="person", terms=SMALL)
    cross_section(town, data, most, account="second")
    with raises_inside(DataRefused, match="belongs to account|of account"):
        town.release(town.folder / "rows")
    cross_section(town, data, most)
    town.release(town.folder / "rows")
    assert verify(town.folder / "rows").passed
