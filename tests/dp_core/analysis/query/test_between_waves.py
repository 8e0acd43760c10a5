"""A change between two waves of a panel is answered from one release, with its covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.query_answer import unit_of
from dp_core.errors import BadInput
from dp_core.inference.questions.between_waves import read_any_question
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.pages.python_words import in_python
from tests.dp_core.analysis.query.survey import SCHEMA as TOWN
from tests.dp_core.analysis.query.survey import noisy_tables, pooled
from tests.panel_files import panel_document

FALSE_ALARM = 1e-6
"""Probability that a test of coverage fails although the coverage is the level."""
SCHEMA = parse_schema(panel_document())
EVERYONE = parse_schema(panel_document(everyone="true"))
PERSONS = 800


def persons(schema, seed):
    """Codes of a file: work and income change little between waves; some are absent."""
    rng = np.random.default_rng(seed)
    domain = schema.domain
    codes = {
        name: rng.integers(0, size, PERSONS)
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    }
    works = rng.random(PERSONS) < 0.5
    for number, wave in enumerate(("2023", "2024", "2025")):
        works = np.where(rng.random(PERSONS) < 0.1 * number, True, works)
        codes[f"work_{wave}"] = np.where(works, 0, 1)
        codes[f"income_{wave}"] = np.minimum(rng.binomial(4, 0.3 + 0.1 * number, PERSONS), 4)
        if not schema.panel.balanced:
            here = rng.random(PERSONS) < 0.8
            codes[f"in_{wave}"] = np.where(here, 0, 1)
            codes[f"work_{wave}"] = np.where(here, codes[f"work_{wave}"], 2)
            missing = schema.column(f"income_{wave}").missing_code
            codes[f"income_{wave}"] = np.where(here, codes[f"income_{wave}"], missing)
    return codes


def sources(schema, file, cliques, scale=1e-7, rng=None):
    cliques = [schema.domain.project(clique).columns for clique in cliques]
    return pooled(schema, noisy_tables(schema.domain, file, cliques, scale=scale, rng=rng))


APART = (("sex", "work_2023"), ("sex", "work_2024"), ("sex", "income_2023"), ("sex", "income_2024"))
JOINT = (("sex", "work_2023", "work_2024"),)
SHARE = "change in share of work = employed from 2023 to 2024 by sex"


def actual(file, name="work", code=0):
    """Change of the share by sex, among those who take part."""
    found = []
    for sex in (0, 1):
        shares = []
        for wave in ("2023", "2024"):
            own = file[f"{name}_{wave}"][file["sex"] == sex]
            own = own[own != 2] if name == "work" else own
            shares.append((own == code).mean())
        found.append(shares[1] - shares[0])
    return found


@pytest.mark.parametrize("schema", [SCHEMA, EVERYONE])
@pytest.mark.parametrize("cliques", [APART, JOINT])
def test_without_noise_the_change_is_that_of_the_participants(schema, cliques):
    file = persons(schema, 1)
    cells = ask(sources(schema, file, cliques), SHARE).cells
    assert [cell.estimate for cell in cells] == pytest.approx(actual(file))
    assert [cell.margin for cell in cells] == pytest.approx([0, 0], abs=1e-6)


@pytest.mark.parametrize("cliques", [APART, JOINT])
def test_intervals_cover_the_change_of_the_file(cliques):
    file, rng, repeats = persons(SCHEMA, 2), np.random.default_rng(3), 400
    wanted, missed = np.array(actual(file)), np.zeros(2)
    for _ in range(repeats):
        found = ask(sources(SCHEMA, file, cliques, 5.0, rng), SHARE, level=0.9)
        low, high = (
            np.array([getattr(cell, end) for cell in found.cells]) for end in ("low", "high")
        )
        missed += (wanted < low) | (high < wanted)
    for each in missed:
        assert stats.binom.sf(each - 1, repeats, 0.1) > FALSE_ALARM
        assert stats.binom.cdf(each, repeats, 0.1) > FALSE_ALARM


def test_noise_that_both_waves_share_cancels():
    file, rng = persons(EVERYONE, 2), np.random.default_rng(3)
    found = sources(EVERYONE, file, JOINT, 5.0, rng)
    (change,) = ask(found, "change in count of work = employed from 2023 to 2024").cells
    margins = [
        ask(found, f"count of work_{wave} = employed").cells[0].margin for wave in (2023, 2024)
    ]
    # Half of the cells of each count are those of persons who work in both waves.
    assert change.margin == pytest.approx(math.hypot(*margins) / math.sqrt(2), rel=0.03)


def test_the_errors_of_equal_bins_mostly_cancel_in_the_change_of_a_mean():
    released = sources(EVERYONE, persons(EVERYONE, 4), APART)
    (cell,) = ask(released, "change in mean of income from 2023 to 2024 where sex = male").cells
    waves = [
        ask(released, f"mean of income_{wave} where sex = male").cells[0]
        for wave in ("2023", "2024")
    ]
    assert cell.estimate == pytest.approx(waves[1].estimate - waves[0].estimate)
    widths = [each.high - each.low for each in waves]
    assert abs(widths[1] - widths[0]) < cell.high - cell.low < 0.8 * math.hypot(*widths)
    assert ask(released, "change in total of income from 2023 to 2024").in_bins


def test_with_sampling_the_covariance_of_the_waves_is_used():
    file = persons(EVERYONE, 4)
    text = SHARE.replace(" by sex", "")
    (cell,) = ask(sources(EVERYONE, file, JOINT), text, sampling=True).cells
    moved = (file["work_2024"] == 0) * 1.0 - (file["work_2023"] == 0)
    assert cell.margin == pytest.approx(1.96 * moved.std() / math.sqrt(PERSONS), rel=0.02)
    # Two tables do not have the covariance.
    assert (
        "work_2023 and work_2024"
        in ask(sources(EVERYONE, file, APART), text, sampling=True).undetermined.sentence
    )


def test_conditions_and_words_name_the_column_of_the_file():
    question = read_any_question(
        "Change in the share of WORK = employed from 2023 to 2025 by sex where health = good?",
        SCHEMA,
    )
    words = "change in share of work = employed from 2023 to 2025 by sex where health = good"
    assert question.in_words == words
    assert read_any_question(words, SCHEMA).in_words == words
    assert question.columns == {"sex", "work_2023", "work_2025", "health_2023", "health_2025"}
    count = read_any_question("change in count from 2023 to 2024 by sex", SCHEMA)
    assert count.columns == {"sex", "in_2023", "in_2024"}
    income = read_any_question("change in mean of income from 2023 to 2024", SCHEMA)
    assert unit_of(income, SCHEMA, "records") == "income_2024"


def test_a_table_of_each_wave_is_enough_and_the_missing_one_is_named():
    found = sources(SCHEMA, persons(SCHEMA, 1), APART[:1])
    answer = ask(found, SHARE).undetermined
    assert answer.missing == (("work_2024",),)
    assert "needs a table of sex x work_2024" in answer.sentence
    text = "change in share of health = good from 2023 to 2024"
    assert "in_2023" in read_any_question(text, SCHEMA).columns
    text += " where health is not missing"
    assert read_any_question(text, SCHEMA).columns == {"health_2023", "health_2024"}


def test_notes_name_those_who_are_in_one_wave_only():
    notes = ask(sources(SCHEMA, persons(SCHEMA, 1), APART), SHARE).notes
    assert any("take part in one of the two waves only" in note for note in notes)


WRONG = {
    "change in share of work = employed": "needs two waves, such as",
    "change in mean of income from 2023 to 2030": "'2030' is not a wave of this panel. The waves",
    "change in share of work = employed from 2023 to 2023": "two different waves",
    "change in share of work from 2023 to 2024": "share of work = employed",
    "change in share of sex = male from 2023 to 2024 by work": "work_2023",
    "change in median of income from 2023 to 2024": "quantile between waves is not available",
    "change in sd of income from 2023 to 2024": "standard deviation between waves is not",
    "change in share of wrk = employed from 2023 to 2024": "Did you mean 'work'",
    "change in shar of work = employed from 2023 to 2024": "Did you mean 'share'",
    "change in difference in count between sex = 1 and sex = 2 from 2023 to 2024": (
        "difference between waves is not available"
    ),
}


@pytest.mark.parametrize("typed", WRONG)
def test_a_mistake_gets_a_sentence(typed):
    with pytest.raises(BadInput) as error:
        read_any_question(typed, SCHEMA)
    assert WRONG[typed] in error.value.message


def test_a_release_without_waves_names_since():
    assert in_python("add --since EARLIER.") == "add since=EARLIER."
    with pytest.raises(BadInput, match="--since EARLIER"):
        read_any_question("change in share of sex = male from 2023 to 2024", TOWN)


@pytest.mark.parametrize(
    "question", ["mean of income", "share by work", "mean of income_2024 by work"]
)
def test_a_column_of_the_file_is_referred_to_its_waves(question):
    with pytest.raises(BadInput, match=r"has a column for each wave: .*_2023, .*_2024") as error:
        read_any_question(question, SCHEMA)
    suggested = "share of work = LEVEL" if "by work" in question else "mean of income"
    assert f"`change in {suggested} from" in str(error.value)
