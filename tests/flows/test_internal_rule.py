"""The rule by which the internal page combines the sets: that of the release, and no other."""

import json

import pytest

from tests.full import some

FORMULAS = """\
synthesize: {sets: 3, mode: %s}
checks: {formulas: ["income ~ age + sex"]}
"""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("mode", "rule"),
    some(
        [("noise-aware", "T = W + (1 + 1/m) B"), ("shared", "T = W + B/m")],
        lambda case: case[0] == "noise-aware",
    ),
)
def test_the_page_combines_by_the_rule_of_the_release_and_names_it(command, project, mode, rule):
    project.write_spec(FORMULAS % mode, privacy="{epsilon: 2, delta: 1e-6}", method="independent")

    project.release()

    words = f"by the rule {mode}, {rule} ("
    found = json.loads((project.internal / "inference.json").read_text())
    assert words in found["rule"]
    assert ("too narrow" in found["rule"]) == (mode == "shared")
    assert words in (project.internal / "inference.html").read_text()
    # And it is what is computed: the command, which reads the public sets alone, says the same,
    # but that it takes W of the sets' number of rows where the page knows the file's.
    answer = command("infer", project.out, "income ~ age + sex", "--json")
    public = {one["name"]: one["high"] - one["low"] for one in answer.json["coefficients"]}
    (shown,) = found["formulas"]
    for one in shown["coefficients"]:
        assert one["sets"]["high"] - one["sets"]["low"] == pytest.approx(
            public[one["name"]], rel=0.1
        )
