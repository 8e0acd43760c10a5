"""The endpoints: what each user sees, and that nothing else comes through."""

import io
import json
import logging
import threading
import zipfile

import pytest

from flows.desk.asked_question import MOST_CHARACTERS
from flows.desk.service.gate import Limits
from tests.flows.desk.service.small_desks import ACCOUNT, USERS, Site
from tests.raising import raising

SECURED = [
    ("POST", "/v1/plan"),
    ("POST", "/v1/questions"),
    ("GET", "/v1/questions"),
    ("GET", "/v1/questions/1"),
    ("GET", "/v1/questions/1/bundle"),
    ("GET", "/v1/allowance"),
    ("GET", "/v1/schema"),
]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def said(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    found = response.json()
    if status >= 400:
        assert list(found) == ["error"]
        assert found["error"].endswith(".")
    return found


def test_a_question_is_admitted_and_later_answered(site):
    response = site.ask()
    assert said(response, 202) == {"id": 1, "state": "waiting"}
    assert response.headers["location"] == "/v1/questions/1"
    waiting = {"id": 1, "question": "count by sex", "epsilon": "0.1", "state": "waiting"}
    assert said(site.send("GET", "/v1/questions/1"), 200) == waiting
    said(site.send("GET", "/v1/questions/1/bundle"), 409)
    site.desks.end(1, "answered")
    answered = waiting | {"state": "answered", "answer": {"value": 1, "of": ACCOUNT}}
    assert said(site.send("GET", "/v1/questions/1"), 200) == answered
    assert said(site.send("GET", "/v1/questions"), 200) == {
        "questions": [waiting | {"state": "answered"}]
    }
    bundle = site.send("GET", "/v1/questions/1/bundle")
    assert bundle.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(bundle.content)) as file:
        assert file.namelist() == ["statement.json"]


def test_a_bundle_holds_no_file_that_a_link_points_to(site, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("rows")
    (site.desks.folder / "link").symlink_to(secret)
    site.ask()
    site.desks.end(1, "answered")
    with zipfile.ZipFile(io.BytesIO(site.send("GET", "/v1/questions/1/bundle").content)) as file:
        assert file.namelist() == ["statement.json"]


def test_a_plan_allowance_and_schema_admit_nothing(site):
    body = {"question": "count by sex", "epsilon": "1/10"}
    assert said(site.send("POST", "/v1/plan", json=body), 200)["cost"] == "1/10"
    assert said(site.send("GET", "/v1/allowance"), 200) == {"left": "1"}
    assert said(site.send("GET", "/v1/schema"), 200)["columns"][0]["name"] == "sex"
    assert site.desks.asked == []


@pytest.mark.parametrize(("method", "path"), SECURED)
@pytest.mark.parametrize(
    "header",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer " + "x" * 100_000},
        {"authorization": "Basic YTpi"},
        {"authorization": b"Bearer \xff\xfe"},
    ],
)
def test_nothing_is_answered_without_a_valid_token(site, method, path, header):
    response = site.send(method, path, None, headers=header, content=b"[" * 10_000)
    said(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_token_in_the_address_is_no_token(site):
    said(site.send("GET", f"/v1/questions?token={site.secrets['anna']}", None), 401)
    said(site.send("GET", f"/v1/questions?access_token={site.secrets['anna']}", None), 401)


def test_two_tokens_in_one_request_are_refused(site):
    header = [(b"authorization", f"Bearer {site.secrets[user]}".encode()) for user in USERS[:2]]
    status, _ = raw(site, "GET", "/v1/questions", header)
    assert status == 401


def raw(site, method, path, headers, messages=None):
    """Call the application as a server does; return the status and the error."""
    import anyio

    sent = []
    given = iter(messages or [{"type": "http.request", "body": b"", "more_body": False}])

    async def receive():
        found = next(given, None)
        if found is None:
            await anyio.sleep_forever()
        return found

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode("utf-8"),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": headers,
        "server": ("127.0.0.1", 8085),
        "client": ("127.0.0.1", 1),
    }

    async def run():
        await site.app(scope, receive, send)

    anyio.run(run)
    return sent[0]["status"], json.loads(sent[1]["body"])["error"]


def test_a_user_sees_nothing_of_the_questions_of_others(site):
    site.ask(user="anna")
    site.ask(user="ben", question="share by sex")
    site.desks.end(1, "answered")
    assert [
        each["id"] for each in site.send("GET", "/v1/questions", "ben").json()["questions"]
    ] == [2]
    other = said(site.send("GET", "/v1/questions/1", "ben"), 404)
    never = said(site.send("GET", "/v1/questions/3", "ben"), 404)
    assert other["error"].replace("1", "3") == never["error"]
    said(site.send("GET", "/v1/questions/1/bundle", "ben"), 404)


@pytest.mark.parametrize(
    "number",
    [
        *("0", "-1", "+1", "01", "1.0", "1_0", "١", "9" * 40, "1\0", "..", "../../etc/passwd"),
        *("1/../1", "1/bundle/..", "1/bundle/statement.json", "1//bundle", "abc", " 1", "1\n"),
    ],
)
def test_only_a_plain_number_is_an_id(site, number):
    site.ask()
    site.desks.end(1, "answered")
    header = [(b"authorization", site.header("anna")["authorization"].encode())]
    assert raw(site, "GET", f"/v1/questions/{number}", header)[0] == 404
    assert raw(site, "GET", f"/v1/questions/{number}/bundle", header)[0] == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 8_000 + b"]" * 8_000, 400),
        (b'{"question": "count", "epsilon": NaN}', 400),
        (b'{"question": "count", "question": "share by sex", "epsilon": "1"}', 400),
        (b"\xff\xfe", 400),
        (b"[]", 422),
        (b'{"question": "count"}', 422),
        (b'{"question": "count", "epsilon": "1", "user": "ben"}', 422),
        (b'{"question": 7, "epsilon": "1"}', 422),
        (b'{"question": "", "epsilon": "1"}', 422),
        (b'{"question": "a\\u0000b", "epsilon": "1"}', 422),
        (b'{"question": "a\\ud800b", "epsilon": "1"}', 422),
        (b'{"question": "a\\nb", "epsilon": "1"}', 422),
        (b'{"question": "count", "epsilon": true}', 422),
        (b'{"question": "count", "epsilon": ' + b"1" * 9_000 + b"}", 422),
        (b'{"question": "count", "epsilon": "lots"}', 400),
        (b'{"question": "count", "epsilon": -1}', 400),
        (b'{"question": "nonsense", "epsilon": "1"}', 400),
        (b'{"question": "count", "epsilon": "2"}', 409),
    ],
)
@pytest.mark.parametrize("path", ["/v1/plan", "/v1/questions"])
def test_what_is_no_question_is_refused_in_a_sentence(site, path, body, status):
    said(site.send("POST", path, content=body), status)
    assert site.desks.asked == []


def test_the_reply_and_the_api_page_state_the_length_that_a_question_may_have(site):
    too_long = {"question": "count " + "x" * (MOST_CHARACTERS - 5), "epsilon": "1"}
    reply = said(site.send("POST", "/v1/plan", json=too_long), 422)
    assert f"1 to {MOST_CHARACTERS:,} characters" in reply["error"]
    page = site.send("GET", "/openapi.json", None).json()
    body = page["paths"]["/v1/plan"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["properties"]["question"]["maxLength"] == MOST_CHARACTERS


@pytest.mark.parametrize(
    ("sent", "read"), [(0.1, "0.1"), (1, "1"), ("1/10", "1/10"), (1e-3, "0.001")]
)
def test_epsilon_is_read_exactly(site, sent, read):
    said(site.ask(epsilon=sent), 202)
    assert site.desks.asked[0].epsilon == read


def test_a_large_body_is_refused_before_it_is_read(site):
    most = site.limits.body
    said(site.send("POST", "/v1/questions", content=b" " * (most + 1)), 413)

    async def pieces():
        for _ in range(1_000_000):
            yield b" " * 1_000
        raise AssertionError("all was read")

    said(site.send("POST", "/v1/questions", content=pieces()), 413)


@pytest.mark.parametrize("length", [b"-1", b"x", b"1" * 5_000, b"9" * 30])
def test_a_false_length_is_refused(site, length):
    header = [(b"authorization", site.header("anna")["authorization"].encode())]
    status, _ = raw(site, "POST", "/v1/plan", [*header, (b"content-length", length)])
    assert status == 413


def test_a_body_that_does_not_arrive_is_given_up(tmp_path):
    site = Site(tmp_path, Limits(patience=0.01))
    header = [(b"authorization", site.header("anna")["authorization"].encode())]
    some = {"type": "http.request", "body": b"{", "more_body": True}
    assert raw(site, "POST", "/v1/plan", header, [some])[0] == 408


def test_the_same_question_has_the_same_id(site):
    assert site.ask().json()["id"] == site.ask().json()["id"] == 1
    assert site.ask(user="ben").json()["id"] == 2
    assert site.ask(epsilon="0.2").json()["id"] == 3


def test_repeated_requests_at_the_same_time_are_one_question(site):
    body = {"question": "count by sex", "epsilon": "0.1"}
    request = ("POST", "/v1/questions", "anna", {"json": body})
    found = site.send_all([request] * 40)
    admitted = [each for each in found if each.status_code == 202]
    assert admitted
    assert {each.json()["id"] for each in admitted} == {1}
    assert {each.status_code for each in found} <= {202, 429}
    assert len(site.desks.asked) == 1


def test_a_user_has_a_limited_number_of_open_questions(tmp_path):
    site = Site(tmp_path, Limits(tick=0, open_questions=3, concurrent=1_000, requests=1_000))
    ask = [
        ("POST", "/v1/questions", "anna", {"json": {"question": f"q{n}", "epsilon": "0.1"}})
        for n in range(60)
    ]
    statuses = [each.status_code for each in site.send_all(ask)]
    assert statuses.count(202) == 3
    assert statuses.count(429) == 57
    refused = site.ask("one more")
    said(refused, 429)
    assert int(refused.headers["retry-after"]) > 0
    said(site.ask("one more", user="ben"), 202)
    said(site.ask(site.desks.asked[0].question), 202)  # it is there already
    site.desks.end(1, "refused")
    said(site.ask("one more"), 202)


def test_a_user_asks_a_limited_number_of_questions_a_day_even_if_they_cost_nothing(tmp_path):
    site = Site(tmp_path, Limits(tick=0, day=3, open_questions=2, requests=1_000))
    for number in range(1, 4):
        said(site.ask(f"q{number}"), 202)
        site.desks.end(number, "answered")
    said(site.ask("one more"), 429)
    said(site.ask("q1"), 202)
    said(site.ask("one more", user="ben"), 202)
    now = site.records._clock() + 24 * 3600
    site.records._clock = lambda: now
    said(site.ask("one more"), 202)
    assert site.records.admissions(ACCOUNT, "anna") == 1


def test_the_queue_has_a_limited_length(tmp_path):
    site = Site(tmp_path, Limits(tick=0, queue=2, requests=1_000))
    said(site.ask(user="anna"), 202)
    said(site.ask(user="ben"), 202)
    said(site.ask(user="carl"), 429)
    site.desks.end(1, "answered")
    said(site.ask(user="carl"), 202)


def test_a_user_sends_a_limited_number_of_requests_and_no_other_user_is_affected(tmp_path):
    site = Site(tmp_path, Limits(requests=5, concurrent=1_000))
    statuses = [
        each.status_code for each in site.send_all([("GET", "/v1/allowance", "anna", {})] * 300)
    ]
    assert statuses.count(200) == 5
    assert statuses.count(429) == 295
    said(site.send("GET", "/v1/allowance", "ben"), 200)


def test_a_user_has_a_limited_number_of_requests_under_way(tmp_path):
    site = Site(tmp_path, Limits(requests=1_000, concurrent=2))
    entered, leave = threading.Semaphore(0), threading.Event()
    usual = site.desks.allowance

    def slow(account, user):
        if user == "anna":
            entered.release()
            leave.wait(30)
        return usual(account, user)

    site.desks.allowance = slow
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(site.send_all([("GET", "/v1/allowance", "anna", {})] * 9))
    )
    thread.start()
    entered.acquire(timeout=30)
    entered.acquire(timeout=30)
    said(site.send("GET", "/v1/allowance", "ben"), 200)
    leave.set()
    thread.join()
    assert sorted(each.status_code for each in found) == [200] * 2 + [429] * 7
    said(site.send("GET", "/v1/allowance", "anna"), 200)


def test_a_user_whom_the_desk_does_not_know_is_refused(site):
    site.secrets["dora"] = site.tokens.issue(ACCOUNT, "dora")[0]
    site.secrets["eve"] = site.tokens.issue("other", "anna")[0]
    for user in ("dora", "eve"):
        said(site.ask(user=user), 403)
        said(site.send("GET", "/v1/allowance", user), 403)
    assert site.desks.asked == []


def test_nothing_is_admitted_after_a_revocation_returned(site):
    """Requests with the token are under way when it is revoked."""
    begun, revoked = threading.Event(), threading.Event()
    usual = site.desks.admit
    late = []

    def admit(*words):
        begun.set()
        if revoked.is_set():
            late.append(words)
        return usual(*words)

    site.desks.admit = admit

    def revoke():
        begun.wait(30)
        site.tokens.revoke(ACCOUNT, "anna")
        revoked.set()

    thread = threading.Thread(target=revoke)
    thread.start()
    bodies = [{"question": f"q{n}", "epsilon": "0.01"} for n in range(40)]
    found = site.send_all([("POST", "/v1/questions", "anna", {"json": each}) for each in bodies])
    thread.join()
    assert late == []
    assert len(site.desks.asked) == sum(each.status_code == 202 for each in found) > 0
    said(site.ask("another"), 401)


def test_states_change_at_ticks_only(tmp_path):
    site = Site(tmp_path, Limits(tick=600, requests=1_000))
    assert site.send("GET", "/v1/questions").json() == {"questions": []}
    assert site.ask().json()["state"] == "waiting"
    site.desks.end(1, "answered")
    assert site.send("GET", "/v1/questions/1").json()["state"] == "waiting"
    assert "answer" not in site.send("GET", "/v1/questions/1").json()
    said(site.send("GET", "/v1/questions/1/bundle"), 409)
    # What is new meanwhile is waiting, whatever became of it.
    site.ask("share by sex")
    site.desks.end(2, "refused")
    assert site.ask("share by sex").json()["state"] == "waiting"
    site.service.renew()
    states = [each["state"] for each in site.send("GET", "/v1/questions").json()["questions"]]
    assert states == ["answered", "refused"]


def test_the_log_has_no_token_question_or_answer(site, caplog):
    with caplog.at_level(logging.DEBUG):
        site.ask("mean of income by sex")
        site.desks.end(1, "answered")
        site.send("GET", "/v1/questions/1")
        site.send("GET", "/v1/questions", None, headers={"authorization": "Bearer guess-of-mine"})
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("dp_release")]
    assert ours == ["user=anna account=rand id=1 admitted epsilon=0.1"]
    for text in (*site.secrets.values(), "guess-of-mine", "income"):
        assert text not in caplog.text


def test_a_failure_is_answered_and_logged_without_its_text(site, caplog):
    site.desks.allowance = raising(ValueError("row 17 has income 5"))
    said(site.send("GET", "/v1/allowance"), 500)
    assert "row 17" not in caplog.text
    assert "ValueError" in caplog.text


def test_a_desk_that_cannot_be_read_is_a_failure_of_the_service(site, caplog):
    from dp_core.errors import LedgerCorrupt

    site.desks.allowance = raising(
        LedgerCorrupt("/srv/home/ledger.db is behind its anchor", row="ledger-lost")
    )
    assert "/srv" not in said(site.send("GET", "/v1/allowance"), 503)["error"]
    assert "ledger-lost" in caplog.text
