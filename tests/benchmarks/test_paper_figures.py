"""The figures of the papers: a full register, and runs that go on where they stopped."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.papers import figures as package
from benchmarks.papers.figures import running
from benchmarks.papers.figures.__main__ import experiments_of, figures_of, main
from benchmarks.papers.figures.experiment import Cell, Context, Experiment, grid
from benchmarks.papers.figures.experiments.census_like import SIZES, census_like
from benchmarks.papers.figures.experiments.cipher_experiments import needed
from benchmarks.papers.figures.pictures import points_of
from benchmarks.papers.figures.printed.cipher_figures import cost
from benchmarks.papers.figures.register import EXPERIMENTS, FIGURES
from benchmarks.papers.figures.running import Forecast, calculate, run, todo
from benchmarks.papers.figures.store import Moments, Point, Store, moments
from benchmarks.papers.figures.view import View
from benchmarks.papers.simulation1 import KNOWN, KNOWN_REPEATS

PRINTED = {
    "CIPHER": {*(f"Figure {n}" for n in range(1, 8)), "Table 1", "Table 2"},
    "SBHG": {*(f"Figure {n}" for n in range(1, 7)), "Tables 1 and 2"},
    "MWEM": {"Figure 1", "Figure 2", "Figure 3", "Table 1"},
    "PrivSyn": {"end-to-end comparison", "comparison of marginal selection"},
    "Bowen & Liu": {
        *(f"Figure {n}" for n in range(1, 8)),
        *(f"Table {n}" for n in range(1, 6)),
        *(f"supplement, Table {n}" for n in range(1, 9)),
        *(f"supplement, Figure {n}" for n in (7, 8, 9, 10, 11)),
        *(f"supplement, Figures {n}" for n in ("2 and 3", "4 and 5")),
    },
}
CONTEXT = Context(seed=3)


def quick(name, keep, repeats=2):
    """Return an experiment with few of its settings."""
    whole = EXPERIMENTS[name]
    settings = tuple(setting for setting in whole.settings if keep(setting))
    return Experiment(name, settings, whole.run, repeats, whole.published, 1)


def test_the_register_has_every_figure_and_table_with_an_experiment_or_a_reason():
    assert package.__doc__
    for paper, numbers in PRINTED.items():
        listed = [figure.number for figure in FIGURES.values() if figure.paper == paper]
        for number in numbers:
            assert any(text.startswith(number) for text in listed), (paper, number)
    for figure in FIGURES.values():
        assert (figure.drawing is None) == bool(figure.reason), figure.name
        if figure.drawing:
            assert set(figure.drawing.experiments) <= set(EXPERIMENTS)
        for claim in figure.claims:
            assert claim.why, figure.name


def test_every_experiment_is_drawn_and_every_drawing_has_settings():
    drawn = {name for figure in FIGURES.values() if figure.drawing
             for name in figure.drawing.experiments}  # fmt: skip
    assert drawn == set(EXPERIMENTS)
    for figure in FIGURES.values():
        for name in figure.drawing.experiments if figure.drawing else ():
            settings = EXPERIMENTS[name].settings
            assert any(figure.drawing.wants(setting) for setting in settings), figure.name


def test_names_mean_figures_experiments_and_their_beginnings():
    assert [figure.name for figure in figures_of(["mwem-2"])] == ["mwem-2"]
    assert [each.name for each in experiments_of(["cipher-5"])] == ["cipher-simulated"]
    assert [each.name for each in experiments_of(["simulation-3"])] == ["simulation-3"]
    both = ["simulation-2", "simulation-2-bins"]
    assert [each.name for each in experiments_of(["simulation-2", "simulation-2-b"])] == both
    assert experiments_of([]) == list(EXPERIMENTS.values())


def test_a_killed_run_goes_on_and_repeats_no_finished_cell(tmp_path, monkeypatch):
    calls = []

    def counted(_, setting, repeats):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append((setting["x"], repeats.start))
        return {"value": [setting["x"] + repeat for repeat in repeats]}

    counting = Experiment("counting", grid(x=(10, 20)), counted, 8, 0, 2)
    monkeypatch.setattr("benchmarks.papers.figures.register.EXPERIMENTS", {"counting": counting})
    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        _run([counting], store)
    assert len(list(store.lines("counting"))) == 5
    # The kill came while a line was written.
    with (tmp_path / "counting.jsonl").open("ab") as file:
        file.write(b'{"setting": {"x": 20}, "fir')
    before = list(calls)
    calls.append("the kill is over")
    _run([counting], store)
    assert len(list(store.lines("counting"))) == 8
    assert not set(before) & set(calls[len(before) + 1 :])
    for line in (tmp_path / "counting.jsonl").read_text().splitlines():
        json.loads(line)
    ten, twenty = store.points("counting")
    assert (ten.repeats, ten.metrics["value"].mean) == (8, 13.5)
    assert twenty.metrics["value"] == Moments(8, 188.0, 20**2 + 21**2 + 22**2 + 23**2 + 24**2
                                              + 25**2 + 26**2 + 27**2)  # fmt: skip
    assert todo([counting], store, CONTEXT) == []
    store.merge("counting")
    assert len(list(store.lines("counting"))) == 2
    assert [point.metrics for point in store.points("counting")] == [ten.metrics, twenty.metrics]
    assert todo([counting], store, CONTEXT) == []


def _run(experiments, store):
    cells = todo(experiments, store, CONTEXT)
    run(cells, store, CONTEXT, Forecast(store, experiments), processes=0)


def test_two_processes_give_the_cells_that_one_gives(tmp_path):
    experiment = EXPERIMENTS["cipher-stored-cells"]
    cells = todo([experiment], Store(tmp_path / "one"), CONTEXT)[:3]
    for name, processes in (("one", 0), ("two", 2)):
        store = Store(tmp_path / name)
        run(cells, store, CONTEXT, Forecast(store, [experiment]), processes=processes)
    found = [
        {
            str(point.setting): point.metrics
            for point in Store(tmp_path / name).points(experiment.name)
        }
        for name in ("one", "two")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_of_cells_that_begin_alike_the_longest_counts_and_none_twice(tmp_path):
    store = Store(tmp_path)
    for first, repeats in ((0, 2), (0, 4), (4, 4), (2, 3)):
        cell = Cell("e", {"x": 1}, first, repeats, 1)
        store.add(cell, {"v": [1.0] * repeats}, 1.0, "here")
    for _ in range(2):
        (point,) = store.points("e")
        assert (point.repeats, point.metrics["v"].number) == (8, 8)
        store.merge("e")
    cells = [Cell("e", {"x": x}, first, 2, 1) for x, first in ((1, 3), (1, 6), (1, 7), (2, 0))]
    assert store.missing(cells) == cells[2:]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("simulation-2", {"low": -3.0, "n": 20, "method": "MODIPS, as published", "log": 0}),
        ("simulation-3", {"method": "NP-DIPS", "log": 2}),
        ("sbhg-baselines", {"file": "dense", "method": "Gibbs", "epsilon": "none", "size": 3000}),
    ],
)
def test_the_same_seed_gives_the_same_cells_where_no_release_is_made(name, setting):
    def values(seed):
        found, cpu = calculate(Cell(name, setting, 1, 2, seed), Context(seed))
        assert cpu >= 0
        return moments(found)

    assert values(3) == values(3)
    assert values(3) != values(4)


def test_repeats_have_the_same_data_whatever_the_method_and_the_block_are():
    together = EXPERIMENTS["simulation-1"].run(
        CONTEXT, {"pi": 0.25, "n": 100, "method": "original", "log": 0}, range(4)
    )
    last = EXPERIMENTS["simulation-1"].run(
        CONTEXT, {"pi": 0.25, "n": 100, "method": "original", "log": 0}, range(3, 4)
    )
    assert together["error"][3] == last["error"][0]
    assert len(set(together["error"])) > 1


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["MODIPS", "Laplace", "MD", "BB-MR"])
def test_sets_that_are_made_one_by_one_are_those_of_whole_releases(method):
    """Bias and RMSE of a proportion, n 100, epsilon 1: as in `test_simulation1`."""
    repeats, setting = 150, {"pi": 0.25, "n": 100, "method": method, "log": 0}
    found = moments(EXPERIMENTS["simulation-1"].run(CONTEXT, setting, range(repeats)))
    error, width = Moments(*found["error"]), Moments(*found["width"])
    bias, rmse, _, wide = KNOWN[method, 100, 0.25, 0]
    # 5.5 standard errors of the two simulations, and the rounding of what is known.
    off = 5.5 * math.sqrt(1 / KNOWN_REPEATS + 1 / repeats)
    spread = math.sqrt(rmse**2 - bias**2)
    assert abs(error.mean - bias) < off * spread + 5e-4
    assert abs(error.deviation / spread - 1) < off / math.sqrt(2) + 0.02
    assert abs(width.mean - wide) < off * 0.35 * wide + 5e-4


def test_a_quick_run_of_two_figures_is_finite_and_is_drawn(tmp_path, monkeypatch, capsys):
    small = {
        "cipher-simulated": quick(
            "cipher-simulated",
            lambda s: s["rows"] == 200 and s["epsilon"] in ("1", "e^2") and s["method"] == "FDH",
        ),
        "simulation-4": quick(
            "simulation-4", lambda s: s["method"] in ("SLOMAG", "original") and s["log"] in (0, 2)
        ),
    }
    monkeypatch.setattr("benchmarks.papers.figures.register.EXPERIMENTS", small)
    store = Store(tmp_path)
    _run(list(small.values()), store)
    for name in ("cipher-2", "cipher-3", "cipher-5", "cipher-6", "dips-6"):
        drawing = FIGURES[name].drawing
        points = points_of(drawing, store)
        assert len(points) >= 2
        assert {point.repeats for point in points} == {2}
        for view in drawing.views:
            assert all(math.isfinite(view.value(point)) for point in points), (name, view.label)
    main(["show", "cipher-2", "cipher-5", "dips-6", "--results", str(tmp_path)])
    for name in ("cipher-2", "cipher-5", "dips-6"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "CIPHER, Figure 2" in shown
    assert "nan" not in shown
    main(["show", "--results", str(tmp_path)])
    assert "CIPHER, Figure 6" in (tmp_path / "summary.txt").read_text()
    main(["show", "mwem-2", "--results", str(tmp_path / "empty")])
    assert "Nothing of it is stored" in capsys.readouterr().out


def test_what_needs_a_file_that_is_not_there_is_left_out_and_named(tmp_path, capsys):
    main(["run", "cipher-7", "--results", str(tmp_path), "--data", str(tmp_path)])
    assert "it needs bankruptcy.csv" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_list_says_what_all_takes(tmp_path, capsys):
    store = Store(tmp_path)
    store.add(Cell("mwem-files", {"file": "mildew"}, 0, 1, 1), {"records": [70.0]}, 36.0, "here")
    main(["list", "mwem", "--results", str(tmp_path)])
    said = capsys.readouterr().out
    assert "not in this version of the paper" in said
    assert "108 s" in said  # three files at 36 s each


def test_costs_are_the_papers():
    assert (needed((2, 2, 3, 3), 2), needed((2, 2, 3, 3), 3), needed((2, 2, 3, 3), 4)) == (
        20,
        32,
        36,
    )
    assert cost({"method": "CIPHER 2-way, as published"}) == 20 / 36
    assert cost({"method": "FDH"}) == 1


def test_the_generated_households_are_as_many_and_as_sparse_as_the_papers():
    data = census_like(4_000, 1)
    assert len(data.domain) == 35
    assert 1.7e25 < data.domain.size() < 2e25
    assert len(np.unique(data.codes.T, axis=0)) > 3_990
    assert all(data.codes.max(axis=1) < np.array((*SIZES, 2)))
    assert 0.08 < data.column("FS").mean() < 0.17
    # Neighbouring columns depend on each other.
    assert np.corrcoef(data.codes[0], data.codes[1])[0, 1] > 0.15


def test_views_take_means_roots_and_odds():
    point = Point({"method": "m"})
    point.metrics = {"a 0": Moments(4, 2.0, 2.0), "a 1": Moments(4, -4.0, 4.0)}
    assert View("", ("a *",), "absolute mean").value(point) == (0.5 + 1.0) / 2
    assert View("", ("a *",), "rms").value(point) == pytest.approx((0.5**0.5 + 1.0) / 2)
    assert View("", ("a 0",), "log odds").value(point) == 0.0
    assert View("", ("a 0",), weight=lambda _: 3.0).value(point) == 1.5
    assert View("", ("a 0",)).deviation(point) == pytest.approx((1 / 3) ** 0.5)
    assert math.isnan(View("", ("b",)).value(point))


def test_a_forecast_takes_what_a_setting_took_or_else_the_mean_of_its_experiment(tmp_path):
    store = Store(tmp_path)
    whole = Experiment("e", grid(x=(1, 2, 3)), lambda *_: {}, 10, 0, 5)
    for x, cpu in ((1, 5.0), (2, 15.0)):
        store.add(Cell("e", {"x": x}, 0, 5, 1), {"v": [0.0] * 5}, cpu, "here")
    forecast = running.Forecast(store, [whole])
    assert forecast.seconds(todo([whole], store, Context())) == 5 + 15 + 10 + 10


@pytest.mark.parametrize("do", ["list", "run", "show"])
def test_a_name_that_means_nothing_ends_with_the_nearest_names(do, capsys):
    with pytest.raises(SystemExit) as ended:
        main([do, "cypher-1"])
    assert ended.value.code == 2
    assert "No figure or experiment is named 'cypher-1'. Did you mean cipher-1" in (
        capsys.readouterr().err
    )
