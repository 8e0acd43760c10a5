"""`dp-release audit`: what it prints, and how it ends."""

from dp_core.audit import report
from dp_core.audit.report import MECHANISMS, QUESTIONS
from dp_core.kernel.cost import sensitivity
from flows.answers import audit_answers

FEW = ("audit", "--quick", "--method", "fdh", "--method", "independent")


def test_it_gives_the_ratio_of_every_bound(command):
    answer = command(*FEW, "--json")
    assert answer.code == 0
    said = answer.json
    assert (said["passed"], said["complete"], said["violations"]) == (True, False, [])
    assert said["releases"] > 0
    assert said["charges"] > 0
    for each in said["bounds"]:
        one, other = each["files"]
        assert one != other
    asked = {each["question"] for each in said["bounds"]}
    assert asked == {"table", "binned-counts"}  # the second chooses private bins and levels
    mechanisms = {each["mechanism"] for each in said["bounds"]}
    assert all(0 < each["ratio"] <= 1 for each in said["bounds"])
    assert any(each["reached"] and each["where"] for each in said["bounds"])
    assert {*said["unasked"]} == {*QUESTIONS, *MECHANISMS.values()} - asked - mechanisms


def test_it_prints_a_table_for_people(command):
    answer = command(*FEW)
    assert answer.code == 0
    assert "1.000" in answer.out
    assert "table" in answer.out
    assert "dp-release audit" in answer.out  # only a part was audited


def test_a_charge_that_is_too_small_ends_it_with_1(command, monkeypatch):
    monkeypatch.setattr(sensitivity, "_count", lambda _rows: (1, 1, 1))
    answer = command("audit", "--quick", "--method", "independent", "--json")
    assert answer.code == 1
    assert not answer.json["passed"]
    assert all("table" in sentence for sentence in answer.json["violations"])
    assert command("audit", "--quick", "--method", "independent").code == 1


def test_every_unit_has_a_column_of_the_table():
    names, heads = zip(*audit_answers.UNITS_SHOWN, strict=True)
    assert [*names] == [report.unit_name(each) for each in (*report.UNITS, *report.HOUSEHOLDS)]
    assert len({*names}) == len({*heads}) == len(names)
