"""`dp-release desk serve`, `token`, `revoke`, and the counts in `desk show`."""

from fractions import Fraction

import pytest

from dp_core.kernel.cost.composition import Terms
from flows.desk.asking import admit_question
from flows.desk.service.service_records import Outcome, ServiceRecords
from flows.desk.service.tokens import TokenStore, UnknownToken


@pytest.fixture
def desk(office):
    terms = Terms("basic", Fraction(1), Fraction("1e-6"))
    office.project.open_account("rand-anna", terms=terms, within="rand")
    return office.open(more="users: {anna: {account: rand-anna}}\n")


def test_a_token_is_printed_once_and_revoked(desk, command, office):
    found = command("desk", "token", "rand", "anna", "--days", 7)
    assert (found.code, found.out.count("\n")) == (0, 1)
    secret, tokens = found.out.strip(), TokenStore(office.project.home)
    holder = tokens.holder(secret)
    assert (holder.account, holder.user, (holder.expires - holder.created).days) == (
        desk.account,
        "anna",
        7,
    )
    assert secret not in found.err
    made = command("desk", "token", "rand", "anna", "--json")
    assert tokens.holder(made.json["token"]).expires.isoformat() == made.json["expires"]
    assert made.err == ""
    assert command("desk", "revoke", "rand", "anna", "--json").json["revoked"] == 2
    with pytest.raises(UnknownToken):
        tokens.holder(secret)
    again = command("desk", "revoke", "rand", "anna")
    assert again.code == 2
    assert "no valid token" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("token", "rand", "ana"), "Did you mean 'anna'"),
        (("token", "nodesk", "anna"), "No question desk"),
        (("token", "rand", "anna", "--days", 0), "--days"),
        (("serve", "--host", "0.0.0.0"), "--tls-cert"),
        (("serve", "--tls-cert", "x.pem"), "belong together"),
        (("serve", "--port", 99999), "port"),
        (("serve", "--deployment"), "PREFECT_API_URL"),
    ],
)
@pytest.mark.usefixtures("desk")
def test_what_cannot_be_done_is_refused_in_a_sentence(command, monkeypatch, words, said):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    found = command("desk", *words)
    assert found.code == 2
    assert said in found.err


def test_a_desk_without_users_has_no_tokens(command, office):
    office.open()
    found = command("desk", "token", "rand", "anna")
    assert found.code == 2
    assert "`users`" in found.err


def test_a_desk_shows_how_many_questions_are_in_each_state(desk, command, office):
    for question in ("count by sex", "count by age", "count by marital"):
        admit_question(desk, question, "0.25", "anna")
    ServiceRecords(office.project.home).keep_outcome("rand", 2, Outcome("refused", "No."))
    shown = command("desk", "show", "rand", "--json").json
    assert shown["counts"] == {"waiting": 2, "refused": 1}
    states = [(each["state"], each["begun"], each["reason"]) for each in shown["questions"]]
    assert states == [("waiting", False, ""), ("refused", False, "No."), ("waiting", False, "")]
    printed = command("desk", "show", "rand").out
    assert "2 waiting, 1 refused" in printed
    assert "admitted" not in printed
    assert "No." in printed
