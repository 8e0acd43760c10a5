"""The figures of the papers: a full register, and runs that go on where they stopped."""

import json
import math

import pytest

from benchmarks.papers.figures.__main__ import main
from benchmarks.papers.figures.experiment import Cell, Context, Experiment, grid
from benchmarks.papers.figures.pictures import points_of
from benchmarks.papers.figures.register import EXPERIMENTS, FIGURES
from benchmarks.papers.figures.running import Forecast, calculate, run, todo
from benchmarks.papers.figures.store import Moments, Store, moments

CONTEXT = Context(seed=3)


def quick(name, keep, repeats=2):
    """Return an experiment with few of its settings."""
    whole = EXPERIMENTS[name]
    settings = tuple(setting for setting in whole.settings if keep(setting))
    return Experiment(name, settings, whole.run, repeats, whole.published, 1)


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


@pytest.mark.parametrize("do", ["list", "run", "show"])
def test_a_name_that_means_nothing_ends_with_the_nearest_names(do, capsys):
    with pytest.raises(SystemExit) as ended:
        main([do, "cypher-1"])
    assert ended.value.code == 2
    assert "No figure or experiment is named 'cypher-1'. Did you mean cipher-1" in (
        capsys.readouterr().err
    )
