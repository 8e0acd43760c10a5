"""The time left of a running stage follows from its forecast and from its own pace."""

from itertools import pairwise

import pytest

from dp_core.plan.forecast.stage_pace import MOST_WRONG, TRUSTED, Moment, StagePace, span


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


def test_between_stages_nothing_is_running(clock):
    pace = StagePace({"count": 10.0}, now=clock)
    assert pace.moment() is None
    pace.update("count", 0.0)
    pace.update("count", 1.0)
    assert pace.moment() is None


def test_a_stage_that_reports_nothing_follows_its_forecast(clock):
    pace = StagePace({"count": 40.0}, now=clock)
    pace.update("count", 0.0)
    clock.seconds += 10
    assert pace.moment() == Moment("count", 0.25, 10.0, 30.0)


def test_without_a_forecast_only_what_is_reported_is_known(clock):
    pace = StagePace({}, now=clock)
    pace.update("copy", 0.0)
    clock.seconds += 10
    assert pace.moment() == Moment("copy", None, 10.0, None)
    assert (pace.moment().percent, pace.moment().in_words()) == (None, "10 s so far")
    pace.update("copy", 0.5)
    assert pace.moment() == Moment("copy", 0.5, 10.0, 10.0)


def test_the_more_of_a_stage_is_done_the_less_its_forecast_counts(clock):
    pace = StagePace({"count": 10.0}, now=clock)
    pace.update("count", 0.0)
    clock.seconds += 10
    pace.update("count", TRUSTED / 2)
    own = 10 / (TRUSTED / 2)
    assert pace.moment().left == pytest.approx((own + 10) / 2 - 10)
    pace.update("count", TRUSTED)
    assert pace.moment().left == pytest.approx(10 / TRUSTED - 10)


def test_a_stage_that_takes_longer_than_expected_names_no_time_left(clock):
    pace = StagePace({"count": 10.0}, now=clock)
    pace.update("count", 0.0)
    clock.seconds += 11
    moment = pace.moment()
    assert moment.left is None
    assert moment.percent == 96
    assert moment.in_words() == "96 %, takes longer than expected: 10 s so far"


@pytest.mark.parametrize("reports", [(), (0.3,), (0.3, 0.9), (0.05, 0.06, 0.07)])
def test_a_stage_with_a_forecast_moves_until_its_end_and_never_goes_back(clock, reports):
    pace = StagePace({"reconstruct": 20.0}, now=clock)
    pace.update("reconstruct", 0.0)
    shown = []
    for second in range(200):
        clock.seconds += 1
        if second % 30 == 15 and second // 30 < len(reports):
            pace.update("reconstruct", reports[second // 30])
        shown.append(pace.moment().done)
    assert shown == sorted(shown)
    assert shown[0] > 0
    assert shown[-1] < 1
    if not reports:
        assert all(later > earlier for earlier, later in pairwise(shown))


def test_a_report_at_once_says_nothing_about_the_pace(clock):
    pace = StagePace({}, now=clock)
    pace.update("count", 0.25)
    clock.seconds += 60
    assert pace.moment() == Moment("count", 0.25, 60.0, None)


def test_a_slow_machine_corrects_the_forecast_of_later_stages(clock):
    pace = StagePace({"validate": 2.0, "count": 10.0, "select": 10.0}, now=clock)
    pace.update("validate", 0.0)
    clock.seconds += 6
    pace.update("validate", 1.0)
    pace.update("count", 0.0)
    assert pace.moment().left == pytest.approx(30.0)
    clock.seconds += 10_000
    pace.update("count", 1.0)
    pace.update("select", 0.0)
    assert pace.moment().left == pytest.approx(10.0 * MOST_WRONG)


def test_short_stages_correct_nothing(clock):
    pace = StagePace({"validate": 0.1, "count": 10.0}, now=clock)
    pace.update("validate", 0.0)
    clock.seconds += 6
    pace.update("validate", 1.0)
    pace.update("count", 0.0)
    assert pace.moment().left == 10.0


def test_what_is_done_never_goes_back(clock):
    pace = StagePace({}, now=clock)
    pace.update("count", 0.5)
    clock.seconds += 1
    pace.update("count", 0.25)
    assert pace.moment().done == 0.5


@pytest.mark.parametrize("seconds", [0.0, 1.0, 9.9, 10.0, 89.0, 90.0, 5399.0, 5400.0, 1e6])
def test_every_length_of_time_has_words_with_a_unit(seconds):
    number, unit = span(seconds).split()
    factor = {"s": 1, "min": 60, "h": 3600}[unit]
    assert float(number) > 0
    assert abs(float(number) * factor - seconds) <= max(1.0, 0.35 * seconds)
