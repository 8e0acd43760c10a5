"""Each user may send so many requests a minute."""

from flows.desk.service.gate import RequestRate


def test_a_user_may_send_so_many_requests_in_any_minute():
    now = [0.0]
    rate = RequestRate(3, clock=lambda: now[0])
    assert [rate.admit("anna") for _ in range(3)] == [0, 0, 0]
    now[0] = 20.0
    assert rate.admit("anna") == 40
    assert rate.admit("ben") == 0
    now[0] = 59.5
    assert rate.admit("anna") == 1
    now[0] = 60.0
    assert [rate.admit("anna") for _ in range(4)] == [0, 0, 0, 60]


def test_a_refused_request_does_not_count():
    now = [0.0]
    rate = RequestRate(1, clock=lambda: now[0])
    rate.admit("anna")
    for second in range(1, 60):
        now[0] = float(second)
        assert rate.admit("anna") > 0
    now[0] = 60.0
    assert rate.admit("anna") == 0
