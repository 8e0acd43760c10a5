"""Files and commands for a cluster: what Dask and the program really take, and as few rights."""

import copy
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import dask
import pytest
import yaml
from dask.config import collect_env
from jsonschema import Draft202012Validator

from tests.processes import ROOT, settings

FOLDER = ROOT / "deployments" / "cluster"
FILES = ("kubernetes.yaml", "kubernetes-prefect.yaml")
PARTS = [part for name in FILES for part in yaml.safe_load_all((FOLDER / name).read_text())]


def job(part):
    """Return the spec that a Deployment, Job or CronJob makes pods by."""
    return part["spec"].get("jobTemplate", part)["spec"]


WORKLOADS = [part for part in PARTS if part["kind"] in ("Deployment", "Job", "CronJob")]
TEMPLATES = [job(part)["template"] for part in WORKLOADS]
PODS = [template["spec"] for template in TEMPLATES]
CONTAINERS = [container for pod in PODS for container in pod["containers"]]
CONTAINERS_BY_NAME = {container["name"]: container for container in CONTAINERS}
COMPOSE = yaml.safe_load((ROOT / "deployments" / "compose.yaml").read_text())


def of_kind(kind):
    return [part for part in PARTS if part["kind"] == kind]


def in_text(path):
    """Return the Dask commands in a script or page."""
    text = re.sub(r"\\\n\s*", " ", path.read_text())
    lines = re.findall(
        r"^(?:srun (?:-\S+ +)+)?(dask (?:scheduler|worker) .+?)&?$", text, re.MULTILINE
    )
    return [shlex.split(line.replace("$((SLURM_CPUS_PER_TASK * 1000))", "4000")) for line in lines]


COMMANDS = [
    *(each["args"] for each in CONTAINERS if each["args"][0] == "dask"),
    *in_text(FOLDER / "slurm.sh"),
    *in_text(ROOT / "docs" / "cluster.md"),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dask_takes_the_commands():
    from distributed.cli import dask_scheduler, dask_worker

    mains = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}
    assert len(COMMANDS) == 6
    for _, part, *words in COMMANDS:
        # Files of certificates need not be here, only be named.
        words = [sys.executable if word.endswith((".pem", ".key")) else word for word in words]
        words = ["4" if word.startswith("$SLURM_CPUS") else word for word in words]
        found = mains[part].make_context(part, words).params
        assert found["protocol"] == "tls"
        assert found["tls_ca_file"]
        assert found["tls_cert"]
        assert found["tls_key"]
        assert found["dashboard"] is False
        assert found["dashboard_address"] == "127.0.0.1:0"
        if part == "worker":
            assert found["scheduler"] or found["scheduler_file"]
            assert found["nanny"] is False


def test_every_file_makes_the_same_settings_which_dask_has():
    import distributed  # noqa: F401 - its settings

    asked = settings()
    shown = collect_env(asked)
    assert shown["distributed"]["worker"]["memory"] == {"target": False, "spill": False}
    assert shown["distributed"]["scheduler"]["http"]["routes"] == ["distributed.http.health"]
    for name in asked:
        key = name.removeprefix("DASK_").lower().replace("__", ".")
        assert dask.config.get(key, "none") != "none", name
    (config,) = [each for each in of_kind("ConfigMap") if each["metadata"]["name"] == "dask"]
    assert asked.items() <= config["data"].items()
    safe = {name: value for name, value in asked.items() if "TTL" not in name}
    assert safe.items() <= COMPOSE["x-dask"].items()


def test_every_pod_has_as_few_rights_as_it_can():
    assert len(CONTAINERS) == 6
    for pod in PODS:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        mounted = {mount["name"] for each in pod["containers"] for mount in each["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
    for each in CONTAINERS:
        context = each["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert each["resources"]["limits"]["memory"]
        assert re.fullmatch(r"dp-release:\d+\.\d+\.\d+", each["image"])


KUBERNETES = json.loads((Path(__file__).parent / "schemas" / "kubernetes-1.37.json").read_text())


def faults(part):
    """Return what Kubernetes would refuse; an unknown field is refused too."""
    name = KUBERNETES["kinds"][f"{part['apiVersion']}/{part['kind']}"]
    schema = {"$ref": f"#/$defs/{name}", "$defs": KUBERNETES["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(part)]


@pytest.mark.parametrize(
    "part", PARTS, ids=lambda part: f"{part['kind']}-{part['metadata']['name']}"
)
def test_kubernetes_takes_the_files(part):
    assert faults(part) == []
    assert part["metadata"]["namespace"] == "dp-release"


def test_kubernetes_would_refuse_a_mistake():
    (part,) = of_kind("Job")
    part = copy.deepcopy(part)
    part["spec"]["template"]["spec"]["containers"][0]["securityContext"]["privilege"] = False
    assert faults(part)


def test_an_evicted_release_goes_on_and_a_refused_one_is_not_repeated():
    from dp_core import errors

    (release,) = of_kind("Job")
    spec = release["spec"]
    ignored, failed = spec["podFailurePolicy"]["rules"]
    assert ignored["action"] == "Ignore"
    assert ignored["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert failed["action"] == "FailJob"
    assert spec["backoffLimit"] >= 1
    # Kubernetes asks for this with a policy of failures.
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = {each.exit_code for each in kinds if issubclass(each, errors.ReleaseError)}
    resumable = {errors.StageFailed.exit_code}
    assert set(failed["onExitCodes"]["values"]) == codes - resumable
    # The same command resumes a release that stopped.
    assert CONTAINERS_BY_NAME["release"]["args"][:2] == ["dp-release", "run"]


def test_only_what_needs_it_may_speak_with_the_outside():
    inside, outside = of_kind("NetworkPolicy")
    assert inside["spec"]["policyTypes"] == ["Ingress", "Egress"]
    own = {"podSelector": {"matchLabels": {"app": "dp-release"}}}
    assert inside["spec"]["ingress"] == [{"from": [own]}]
    peers, names = inside["spec"]["egress"]
    assert peers == {"to": [own]}
    assert {each["port"] for each in names["ports"]} == {53}
    (chosen,) = outside["spec"]["podSelector"]["matchExpressions"]
    labels = {template["metadata"]["labels"]["part"] for template in TEMPLATES}
    assert set(chosen["values"]) == labels - {"scheduler", "dask-worker"}
    for rule in outside["spec"]["egress"]:
        assert all(each["ipBlock"]["cidr"].endswith("/32") for each in rule["to"])
        assert rule["ports"]
    for template in TEMPLATES:
        assert template["metadata"]["labels"]["app"] == "dp-release"


def test_the_cron_jobs_run_commands_that_there_are_and_never_twice_at_once():
    from flows.cli.main import cli

    for part in of_kind("CronJob"):
        (container,) = job(part)["template"]["spec"]["containers"]
        program, group, command, *words = container["args"]
        assert program == "dp-release"
        cli.commands[group].commands[command].make_context(command, words)
        assert part["spec"]["concurrencyPolicy"] == "Forbid"
        assert job(part)["activeDeadlineSeconds"]


def test_parts_find_one_another_and_the_home_is_at_one_path():
    (service,) = of_kind("Service")
    (scheduler,) = [pod for pod in PODS if pod["containers"][0]["name"] == "scheduler"]
    address = f"tls://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert f"{address}" in next(c["args"] for c in CONTAINERS if c["name"] == "dask-worker")
    assert f"{address}" in next(c["args"] for c in CONTAINERS if c["name"] == "release")
    assert scheduler["containers"][0]["ports"] == [{"containerPort": 8786}]
    homes = {
        each["name"]: (mount["mountPath"], mount.get("readOnly", False))
        for each in CONTAINERS
        for mount in each["volumeMounts"]
        if mount["name"] == "home"
    }
    home = re.search(
        r"DP_RELEASE_HOME=(\S+)", (ROOT / "deployments" / "image" / "Dockerfile").read_text()
    )[1]
    assert homes.pop("dask-worker") == (home, True)
    assert homes == dict.fromkeys(("release", "worker", "nightly", "sweep"), (home, False))


def test_the_page_makes_the_secrets_and_claims_that_the_file_names():
    page = (ROOT / "docs" / "cluster.md").read_text()
    secrets = {
        volume["secret"]["secretName"]
        for pod in PODS
        for volume in pod["volumes"]
        if "secret" in volume
    }
    parts = re.search(r"for part in (.+); do", page)[1].split()
    made = {f"dask-{part.removeprefix('dask-')}" for part in parts}
    made |= set(re.findall(r"create secret generic (\w+)", page))
    assert secrets == made
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in PODS
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == set(re.findall(r"^metadata: \{name: (\w+)\}", page, re.MULTILINE))


SRUN = """\
#!/bin/sh
# Two nodes' tasks, on this machine; the options are srun's.
while [ "${1#-}" != "$1" ]; do shift; done
"$@" & "$@" & wait
"""
RELEASE = """\
import sys
from tasks.support.dask_cluster import dask_client
where = sys.argv[sys.argv.index("--dask") + 1]
with dask_client(where) as client:
    client.wait_for_workers(2, timeout=240)
    print(*sys.argv[1:3], sys.argv[4], where.partition(":")[0], sorted(client.nthreads().values()))
"""


@pytest.mark.slow
def test_the_job_of_slurm_starts_all_and_ends_all(tmp_path):
    program, tls = tmp_path / "program", tmp_path / "tls"
    (program / "deployments").mkdir(parents=True)
    (program / "deployments" / "cluster").symlink_to(FOLDER)
    binaries = program / ".venv" / "bin"
    binaries.mkdir(parents=True)
    python = f"#!/bin/sh\nexec {sys.executable}"
    for name, text in {
        "srun": SRUN,
        "python": f'{python} "$@"\n',
        "dask": f'{python} -m dask "$@"\n',
        "dp-release": f'{python} -W ignore {tmp_path / "release.py"} "$@"\n',
    }.items():
        (binaries / name).write_text(text)
        (binaries / name).chmod(stat.S_IRWXU)
    (tmp_path / "release.py").write_text(RELEASE)
    (tmp_path / "home").mkdir()
    subprocess.run(
        [sys.executable, ROOT / "deployments" / "tls.py", tls],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "3",
        "DP_RELEASE_HOME": str(tmp_path / "home"),
        "DP_RELEASE_PROGRAM": str(program),
        "DP_RELEASE_TLS": str(tls),
    }
    done = subprocess.run(
        ["sh", FOLDER / "slurm.sh", "a.yaml", "out"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "run a.yaml out tls [3, 3]\n"
    assert list(Path(environment["DP_RELEASE_HOME"]).iterdir()) == []
