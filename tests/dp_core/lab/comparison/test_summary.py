import csv
import math

import pytest

from dp_core.lab.comparison.cells import BOOTSTRAP, Cell, Declaration, Result
from dp_core.lab.comparison.figures import shown_number
from dp_core.lab.comparison.plots import draw_plots, limits
from dp_core.lab.comparison.summary import as_csv, as_markdown, shown_figures, spread, summarise

DECLARATION = Declaration("A. Person", "2026-11-21", "a public-use file")


def cell(method, run, epsilon="1", *, reference=False, file="town", label=None):
    return Cell(
        file=file,
        label=label or method,
        method=method,
        epsilon=None if method == BOOTSTRAP else epsilon,
        delta=None if method == BOOTSTRAP else "1e-09",
        neighbours=None if method == BOOTSTRAP else "add-remove",
        run=run,
        reference=reference,
        definition={"method": method, "epsilon": epsilon, "run": run, "seed": run},
        spec=None,
        refusal=None,
    )


def done(pairs, **more):
    return Result("done", {"tvd2": pairs, "kl": None, "rows": 100, **more})


RESULTS = [
    (cell(BOOTSTRAP, 1, reference=True), done(0.01, cpu=0.1)),
    (cell(BOOTSTRAP, 2, reference=True), done(0.03, cpu=0.1)),
    (cell("independent", 1, reference=True), done(0.10)),
    (cell("independent", 2, reference=True), done(0.14)),
    (cell("privsyn", 1), done(0.04, numbers=37, cost=1.48)),
    (cell("privsyn", 2), done(0.06, numbers=37, cost=2.22)),
    (cell("fdh", 1), Result("refused", {}, "The table has too many cells | and more.")),
    (cell("fdh", 2), Result("refused", {}, "The table has too many cells | and more.")),
    (cell("aim", 1), Result("not finished", {}, "It was stopped after 5 s.", 5.0)),
    (cell("aim", 2), None),
]


def rows():
    return {row.cell.label: row for row in summarise(RESULTS)}


def test_mean_and_sample_deviation_are_those_by_hand():
    found = spread([1.0, 2.0, 6.0])
    assert (found.mean, found.runs) == (3.0, 3)
    assert found.deviation == pytest.approx(math.sqrt((4 + 1 + 9) / 2), rel=1e-12)
    assert spread([4.0]).deviation is None


def test_each_method_is_a_row_in_the_order_of_the_cells():
    assert list(rows()) == [BOOTSTRAP, "independent", "privsyn", "fdh", "aim"]
    assert rows()["privsyn"].figures["tvd2"].mean == pytest.approx(0.05, rel=1e-12)
    assert rows()["fdh"].outcomes == {"refused": 2}
    assert (rows()["aim"].done, rows()["aim"].runs) == (0, 2)


def test_relative_error_is_between_bootstrap_and_independence():
    # floor .02, baseline .12
    assert rows()["privsyn"].figures["relative"].mean == pytest.approx(0.3, rel=1e-12)
    deviation = math.sqrt(2) * 0.01 / 0.1
    assert rows()["privsyn"].figures["relative"].deviation == pytest.approx(deviation, rel=1e-12)
    assert rows()["independent"].figures["relative"].mean == pytest.approx(1.0, rel=1e-12)
    assert "relative" not in rows()[BOOTSTRAP].figures


def test_the_baseline_is_independence_at_the_same_epsilon():
    others = [
        *RESULTS,
        (cell("independent", 1, "5"), done(0.08)),
        (cell("privsyn", 1, "5"), done(0.05)),
    ]
    found = [row.figures["relative"].mean for row in summarise(others) if row.cell.epsilon == "5"]
    assert found == pytest.approx([1.0, 0.5], rel=1e-12)


def test_independence_at_another_epsilon_is_no_baseline():
    others = [(cell("privsyn", 1, "5"), done(0.03)), *RESULTS]
    found = [row for row in summarise(others) if row.cell.epsilon == "5"]
    assert "relative" not in found[0].figures


def test_figures_that_no_row_has_are_no_columns():
    assert shown_figures(tuple(rows().values())) == ("tvd2", "relative", "cost", "cpu")


def test_the_table_begins_with_the_declaration_and_says_what_did_not_work():
    text = as_markdown(summarise(RESULTS), DECLARATION)
    lines = text.splitlines()
    assert lines[0] == "Data declared public by A. Person on 2026-11-21: a public-use file"
    header = next(line for line in lines if line.startswith("| method"))
    assert header == "| method | epsilon | runs | 2-way TVD | relative | TVD x cells | CPU s |"
    assert "| privsyn | 1 | 2/2 | .0500 ± .0141 | .300 ± .141 | 1.85 ± 0.523 |  |" in lines
    assert "| *independent* | 1 | 2/2 | .1200 ± .0283 | 1.000 ± .283 |  |  |" in lines
    assert "| fdh | 1 | refused |  |  |  |  |" in lines
    assert "- fdh at epsilon 1: The table has too many cells \\| and more." in lines
    assert "- aim at epsilon 1: It was stopped after 5 s." in lines
    columns = {line.count("|") for line in lines if line.startswith("| ")}
    assert columns == {8}


def test_the_table_says_what_its_spread_is_of():
    several = as_markdown(summarise(RESULTS), DECLARATION)
    assert "standard deviation. Rows" in several
    assert "from 1 run" not in several
    single = as_markdown(summarise([RESULTS[0], RESULTS[2], RESULTS[4]]), DECLARATION)
    assert "from 1 run" in single
    assert "±" not in single
    for told in ("compare only methods of similar TVD.", "without its start-up"):
        assert told in several


@pytest.mark.parametrize(
    ("epsilons", "methods", "least", "most"),
    [
        ([1.0], 12, 2, 2),
        ([1.0, 1.01], 3, 1.9, 2),
        ([0.2, 1.0, 5.0], 3, 25**0.05, 25**0.1),
        ([1.0], 100, 1.02**50, 1.02**51),
    ],
)
def test_the_axis_is_wider_than_the_methods_stand_apart(epsilons, methods, least, most):
    low, high = limits(epsilons, methods)
    for margin in (epsilons[0] / low, high / epsilons[-1]):
        assert least <= margin <= most
        assert margin > 1.02 ** ((methods - 1) / 2)


def test_every_run_is_a_line_of_the_csv_below_the_declaration(tmp_path):
    import pandas as pd

    path = tmp_path / "results.csv"
    path.write_text(as_csv(RESULTS, DECLARATION))
    assert path.read_text().splitlines()[0] == f"# {DECLARATION.sentence}"
    table = pd.read_csv(path, comment="#")
    assert len(table) == len(RESULTS)
    assert table["tvd2"].tolist()[:6] == [0.01, 0.03, 0.10, 0.14, 0.04, 0.06]
    assert table["outcome"].tolist()[-2:] == ["not finished", "open"]
    assert table["numbers"].dropna().tolist() == [37, 37]


def test_no_text_of_the_csv_is_a_formula_in_a_spreadsheet():
    refused = Result("refused", {}, sentence='-cmd("x") is no option.')
    results = [
        (cell("privsyn", 1, label="=1+1", file="@town"), refused),
        (cell("mst", 1), done(-1e-3)),
    ]
    declaration = Declaration("A. Person", "2026-11-21", "teaching,=1+1; +2")
    comment, *lines = as_csv(results, declaration).splitlines()
    first, second = csv.DictReader(lines)

    assert comment.endswith("teaching,'=1+1; '+2")
    assert (first["method"], first["file"]) == ("'=1+1", "'@town")
    assert first["sentence"] == '\'-cmd("x") is no option.'
    assert (second["method"], second["tvd2"]) == ("mst", "-0.001")


def test_every_figure_of_every_file_is_a_picture(tmp_path):
    both = [*RESULTS, (cell("privsyn", 1, file="village"), done(0.3))]
    (tmp_path / "village-old.png").write_bytes(b"")
    written = draw_plots(summarise(both), DECLARATION, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in written}
    assert names == {
        "town-tvd2.png",
        "town-relative.png",
        "town-cost.png",
        "town-cpu.png",
        "village-tvd2.png",
    }
    content = (tmp_path / "town-tvd2.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert DECLARATION.sentence.encode() in content


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("tvd2", 0.01234, ".0123"),
        ("tvd2", 1.0, "1.0000"),
        ("relative", -0.05, "-.050"),
        ("cost", 3912.4, "3,912"),
        ("memory", 1234.5, "1,234"),
        ("cpu", 0.04, "0.0"),
    ],
)
def test_numbers_have_the_digits_that_people_compare(name, value, text):
    assert shown_number(name, value) == text
