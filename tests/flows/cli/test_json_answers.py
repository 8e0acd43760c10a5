"""The `--json` answers keep their keys, their order and their values.

`json_answers.json` holds the answer of each command below. Hashes, times, folders and noisy numbers
are masked; sentences too, since they may be reworded. After an intended change, run the test with
`WRITE_JSON_ANSWERS=1` and review the difference.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from dp_core.plan.plan import make_plan
from dp_core.plan.reading.spec_file import load_spec
from tasks.run.home import home_id
from tests.flows.conftest import SETS

pytestmark = pytest.mark.usefixtures("quick")

GOLDEN = Path(__file__).with_name("json_answers.json")
WHO = ("--by", "Ana Officer", "--reason", "a test")
NOISY = ("run", "publish", "infer", "query", "metrics")


def masked(text: str, folder: Path, *, noisy: bool) -> object:
    """Return an answer without what differs from run to run; keys stay in their order."""

    def mask(value: object) -> object:
        if isinstance(value, dict):
            return [
                # Another machine takes another time.
                [key, list(part) if key == "time" and part else mask(part)]
                for key, part in value.items()
            ]
        if isinstance(value, list):
            return [mask(part) for part in value]
        if isinstance(value, float):
            # The last digits of a sum depend on the processor.
            return "float" if noisy else float(f"{value:.9g}")
        if isinstance(value, int) and noisy and not isinstance(value, bool):
            return "int"
        if isinstance(value, str):
            if value.count(" ") > 2 and "UNMASKED_SENTENCES" not in os.environ:
                return "sentence"
            value = value.replace(str(folder), "FOLDER")
            value = re.sub(r"[0-9a-f]{16,}", "HASH", value)
            value = re.sub(r"20\d\d-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?", "TIME", value)
            return re.sub(r"20\d\d-(Q\d|\d\d)\b", "PERIOD", value)
        return value

    return mask(json.loads(text))


def test_the_answers_of_the_commands_keep_their_shape(project, command, tmp_path):
    answers = {}

    def ask(*words: object) -> None:
        name = " ".join(str(word).replace(str(tmp_path), "FOLDER") for word in words)
        found = command(*words, "--json")
        said = (
            masked(found.out, tmp_path, noisy=not {*NOISY}.isdisjoint(words[:2]))
            if found.out
            else None
        )
        answers[name] = {"exit_code": found.code, "answer": said}

    spec, folder = project.spec, project.folder
    # A spec that says nothing of its sets.
    spec.write_text(spec.read_text().replace(f"synthesize: {SETS}\n", ""))
    ask("plan", spec)
    ask("ledger", "show", "town")
    ask("ledger", "charges", "town")
    ask("status")
    ask("status", "nothing")
    ask("ledger", "open", "top", "--epsilon", 9, "--delta", "1e-4", *WHO)
    terms = ("--epsilon", 3, "--delta", "1e-5", "--composition", "zcdp", "--own-delta", "1e-6")
    periods = ("--per", "year", "--period-epsilon", 2, "--carry-over", "--within", "top")
    ask("ledger", "open", "waves", *terms, *periods, "--approved-plans-only", *WHO)
    ask("ledger", "raise", "waves", "--epsilon", 4, "--period-epsilon", 3, *WHO)
    ask("ledger", "restate", "waves", "--composition", "basic", "--period-delta", "1e-6", *WHO)
    ask("ledger", "restate", "waves", "--composition", "zcdp", *WHO)
    ask("ledger", "raise", "waves", "--epsilon", 2, *WHO)
    ask("ledger", "forecast", spec)
    ask("ledger", "forecast", spec, "--every", "quarter")
    plain = spec.read_text().replace("select: {at_once: never}\n", "")
    waves = folder / "waves.yaml"
    waves.write_text(plain.replace("account: town", "account: waves") + "method: mst\n")
    ask("plan", waves)
    ask("ledger", "approve", waves, *WHO)
    ask("plan", waves)
    ask("ledger", "withdraw", waves, *WHO)
    ask("ledger", "approve", "ab" * 32, *WHO)
    ask("ledger", "forecast", waves)
    tables = folder / "tables.yaml"
    tables.write_text(
        plain + "method: fixed\ntables: [{of: [sex, age], weight: 3}]\nsynthesize: {sets: 0}\n"
    )
    ask("plan", tables)
    declared = folder / "declared.yaml"
    declared.write_text(spec.read_text() + 'analyses: ["income ~ age + sex", "sex ~ marital"]\n')
    ask("plan", declared)

    # The tables that another method selects depend on the noise.
    fixed = {"method": "independent", "privacy": "{epsilon: 1/4}"}
    project.write_spec(**fixed)
    ask("run", spec, "--out", project.out)
    ask("run", spec, "--out", project.out)
    ask("status")
    ask("status", "town")
    ask("ledger", "show", "town")
    ask("ledger", "charges", "town", "--release", "town")
    ask("verify", project.out)
    ask("infer", project.out, "income ~ age + sex")
    ask("infer", project.out, "income ~ age", "--against-confidential")
    ask("query", project.out, "mean of income by sex")
    ask("query", project.out, "share by sex")
    project.write_spec("publish: after-approval\n", release="later", **fixed)
    ask("run", spec, "--out", folder / "later")
    ask("release", "look", "later", *WHO)
    ask("status", "later")
    ask("release", "publish", "later", *WHO)
    project.write_spec("publish: after-approval\n", release="last", **fixed)
    ask("run", spec, "--out", folder / "last")
    ask("release", "withdraw", "last", *WHO)
    ask("status", "last")
    project.write_spec(release="never", **fixed)
    with project.ledger().lease("never", home_id(project.home)) as writer:
        writer.reserve(make_plan(load_spec(spec)))
    ask("abandon", "never")
    ask("status")

    ask("ledger", "keygen", folder / "key", *WHO)
    ask("ledger", "export", folder / "export.jsonl")
    ask("ledger", "verify", folder / "export.jsonl")
    ask("ledger", "verify", "--public-key", folder / "key.pub")
    ask("ledger", "show")
    ask("ledger", "close", "waves", *WHO)
    ask("schema", "draft", folder / "town.csv")
    ask("schema", "check", folder / "town.schema.yaml", folder / "town.csv")
    ask("server", "metrics")
    ask("plann")

    if "WRITE_JSON_ANSWERS" in os.environ:
        lines = [f"{json.dumps(name)}: {json.dumps(said)}" for name, said in answers.items()]
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name, answer in answers.items():
        assert answer == expected.get(name), name
    assert list(answers) == list(expected)
