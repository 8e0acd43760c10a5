"""What an operator copies: that it is well-formed, and says only what is there."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from tests.deployments.site import local
from tests.processes import settings

FOLDER = Path(__file__).parents[2] / "deployments"
ROOT = FOLDER.parent
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
PREFECT = yaml.safe_load((FOLDER / "prefect.yaml").read_text())
DOCKERFILE = (FOLDER / "image" / "Dockerfile").read_text()


def script(path: str):
    """Return a script of the folder as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, FOLDER / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_setting_of_compose_is_explained_and_none_more():
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)\}", (FOLDER / "compose.yaml").read_text()))
    explained = set(re.findall(r"^([A-Z_]+)=", (FOLDER / "env.example").read_text(), re.MULTILINE))
    assert used == explained


def test_nothing_is_open_beyond_the_loopback():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:${PREFECT_PORT}:4200"]
    assert COMPOSE["networks"]["inside"]["internal"] is True
    outside = [name for name, each in COMPOSE["services"].items() if "outside" in each["networks"]]
    assert outside == ["server"]
    # Whatever is in the image's command for the one part that listens to all is under TLS.
    assert "--ssl-keyfile" in COMPOSE["services"]["server"]["command"]


def test_every_part_has_as_few_rights_as_it_can():
    for name, service in COMPOSE["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service["user"].startswith("0"), name
        assert "privileged" not in service, name
        if service["restart"] != "no":
            assert service["healthcheck"]["test"], name


def test_compose_has_only_what_its_schema_knows():
    from jsonschema import Draft7Validator

    schema = json.loads((Path(__file__).parent / "schemas" / "compose-spec.json").read_text())
    check = Draft7Validator(schema)
    used = dict(re.findall(r"^([A-Z_]+)=(.*)", (FOLDER / "env.example").read_text(), re.MULTILINE))
    text = re.sub(
        r"(?<!\$)\$\{([A-Z_]+)\}",
        lambda name: used[name[1]],
        (FOLDER / "compose.yaml").read_text(),
    )
    filled = yaml.safe_load(text)
    assert [error.message for error in check.iter_errors(filled)] == []
    filled["services"]["server"]["mem_limits"] = "1g"
    assert not check.is_valid(filled)


def test_no_secret_stands_in_a_file():
    """Secrets come from files; a variable that would hold one names such a file."""
    for name, service in COMPOSE["services"].items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|AUTH", key):
                assert key.endswith(("_FILE", "_ARGS")), (name, key)
                assert value.startswith(("/run/secrets/", "--auth")), (name, key)
        named = {
            value.rpartition("/")[2]
            for value in service.get("environment", {}).values()
            if str(value).startswith("/run/secrets/")
        }
        assert named <= set(service.get("secrets", [])), name
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
    assert not re.search(r"(?i)(password|secret|token)\s*=", DOCKERFILE)


def test_the_image_copies_what_there_is_and_is_no_roots():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
    assert {"dp_core", "tasks", "flows", "deployments/image/requirements.lock"} <= set(sources)
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)


def locked(path):
    """Return the requirements of a lock with the hashes of their files."""
    from packaging.requirements import Requirement

    found = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / path).read_text().strip()):
        requirement, *hashes = re.split(r" \\\n {4}--hash=sha256:", entry)
        assert all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes), entry
        asked = Requirement(requirement)
        assert asked.name not in found, entry
        found[asked.name] = (asked, hashes)
    return found


def version(asked):
    (fixed,) = asked.specifier
    assert fixed.operator == "=="
    return fixed.version


LOCKS = ("requirements.lock", "docs/requirements.lock", "deployments/image/requirements.lock")


@pytest.mark.parametrize("path", LOCKS)
def test_a_lock_fixes_every_file_and_names_no_host(path):
    entries = locked(path)
    assert len(entries) > 30
    for asked, hashes in entries.values():
        assert hashes, asked
        assert asked.url is None
        assert version(asked)
    text = (ROOT / path).read_text()
    assert "//" not in text
    assert "index" not in text


def test_the_locks_hold_what_pyproject_asks_for_and_agree():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    main, docs, image = map(locked, LOCKS)
    program = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["pipeline"],
    ]
    export = project["project"]["optional-dependencies"]["export"]
    for path, lock, wanted in (
        (LOCKS[0], main, [*program, *export, *groups["dev"], *groups["build"]]),
        (LOCKS[2], image, [*program, *groups["build"]]),
        (LOCKS[1], docs, groups["docs"]),
    ):
        for asked in map(Requirement, wanted):
            name = canonicalize_name(asked.name)
            assert asked.specifier.contains(version(lock[name][0])), f"{asked}: run `make lock`"
            assert lock[name][0].marker is None, path
    for other in (docs, image):
        for name in main.keys() & other.keys():
            assert main[name] == other[name], name
    assert not image.keys() - main.keys()
    for asked in map(Requirement, groups["dev"]):
        if asked.name not in ("jsonschema", "websockets"):  # the program's own packages need these
            assert canonicalize_name(asked.name) not in image, asked


def test_everything_is_installed_with_hashes():
    makefile = (ROOT / "Makefile").read_text()
    for text, expected in ((makefile, 2), (DOCKERFILE, 1)):
        lines = [line for line in text.splitlines() if re.search(r"--requirement \S+\.lock", line)]
        assert len(lines) == expected
        assert all(" --no-deps --require-hashes " in line for line in lines)


def test_deployments_import_and_say_what_they_are():
    found = {each["name"]: each for each in PREFECT["deployments"]}
    assert set(found) == {"monthly", "often", "nightly", "on-demand", "questions"}
    for each in found.values():
        module, _, name = each["entrypoint"].rpartition(".")
        flow = getattr(importlib.import_module(module), name)
        assert set(each["parameters"]) <= set(flow.parameters.properties)
        assert each["tags"][0] == "dp-release"
        assert each["description"]
        assert each["work_pool"]["name"] == "dp-release"
        for schedule in each.get("schedules", []):
            assert schedule["timezone"]
        environment = each["work_pool"]["job_variables"]["env"]
        assert environment["PREFECT_RESULTS_PERSIST_BY_DEFAULT"] == "false"
        assert environment["DO_NOT_TRACK"] == "1"
    assert found["monthly"]["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert found["nightly"]["concurrency_limit"]["collision_strategy"] == "CANCEL_NEW"


def test_every_file_makes_the_settings_that_the_flows_ask_for(tmp_path, monkeypatch):
    """One truth, of which some files must hold a copy."""
    from flows.engine.settings import DEFAULTS, QUIET

    for name in [*QUIET, *DEFAULTS, *(each for each in os.environ if each.startswith("DASK_"))]:
        monkeypatch.delenv(name, raising=False)
    asked = {name: value for name, value in QUIET.items() if name.startswith(("PREFECT", "DO_NOT"))}
    for each in PREFECT["deployments"]:
        assert asked.items() <= each["work_pool"]["job_variables"]["env"].items()
    of_dask = {name: value for name, value in settings().items() if "TTL" not in name}
    assert {**QUIET, **of_dask}.items() <= local().Installation(tmp_path).environment().items()
    systemd = (FOLDER / "systemd" / "environment.example").read_text()
    assert asked.items() <= dict(re.findall(r"^([A-Z_]+)=(.*)$", systemd, re.MULTILINE)).items()
    image = dict(re.findall(r"^(?:ENV| ) +([A-Z_]+)=(\S+)", DOCKERFILE, re.MULTILINE))
    assert asked.items() <= image.items()


def test_certificates_are_trusted_by_their_own_authority_alone(tmp_path):
    tls = script("tls.py")
    written = tls.make_certificates(tmp_path / "tls", ["dask.example", "10.1.2.3"])
    assert len(written) == 2 + 2 * len(tls.PARTS)
    for part in tls.PARTS:
        key = tmp_path / "tls" / f"{part}.key"
        assert key.stat().st_mode & 0o777 == 0o600
        context = ssl.create_default_context(cafile=tmp_path / "tls" / "ca.pem")
        context.load_cert_chain(tmp_path / "tls" / f"{part}.pem", key)
        made = x509.load_pem_x509_certificate((tmp_path / "tls" / f"{part}.pem").read_bytes())
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [part, "localhost", "dask.example"]
        assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [
            "127.0.0.1",
            "10.1.2.3",
        ]
    before = (tmp_path / "tls" / "server.pem").read_bytes()
    assert tls.make_certificates(tmp_path / "tls") == []
    assert (tmp_path / "tls" / "server.pem").read_bytes() == before
    assert len(tls.make_certificates(tmp_path / "tls", renew=True)) == 2 * len(tls.PARTS)
    # A part that compose names is one that a certificate is made for.
    text = (FOLDER / "compose.yaml").read_text()
    assert set(re.findall(r"/tls/([a-z-]+)\.key", text)) == set(tls.PARTS)


def test_a_container_reads_its_secrets_from_files(tmp_path):
    (tmp_path / "password").write_text("p@ss/word\n")
    entrypoint = [sys.executable, str(FOLDER / "image" / "entrypoint.py")]
    show = [sys.executable, "-c", "import os; print(os.environ['URL'], os.environ['PW'])"]

    def run(**environment):
        return subprocess.run(
            entrypoint + show, env=environment, capture_output=True, text=True, check=False
        )

    done = run(PW_FILE=str(tmp_path / "password"), URL="db://me:${PW}@host")
    assert done.stdout == "db://me:p%40ss%2Fword@host p@ss/word\n"
    done = run(PW_FILE=str(tmp_path / "none"), URL="")
    assert done.returncode == 1
    assert done.stderr.startswith("PW_FILE names ")
    done = run(URL="db://me:${OTHER}@host")
    assert done.stderr == "URL needs the secret OTHER: give OTHER_FILE.\n"
    # Certificates are no secrets, though their names end so.
    module = script("image/entrypoint.py")
    kept = {"PREFECT_API_SSL_CERT_FILE": "/tls/ca.pem", "DASK_TLS__CA_FILE": "/tls/ca.pem"}
    assert module.with_secrets(kept) == kept


@pytest.mark.slow
def test_the_roles_have_no_more_rights_than_they_need(postgres_server):
    import psycopg
    from sqlalchemy import make_url

    from tasks.ledger.ledger import Ledger

    at = make_url(postgres_server.url())
    host = at.query["host"]
    psql = ["psql", "-X", "-q", "-h", host, "-p", "5432", "-U", "postgres"]
    roles = [*psql, "-f", str(FOLDER / "sql" / "roles.sql")]
    environment = os.environ | {"LEDGER_OWNER_PASSWORD": "o'wner", "LEDGER_PASSWORD": "l"}
    try:
        # Without one of them nothing is made, so that it can be run again.
        done = subprocess.run(roles, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert "PREFECT_PASSWORD is not set." in done.stderr
        subprocess.run(roles, env=environment | {"PREFECT_PASSWORD": "p"}, check=True)
        url = f"postgresql+psycopg://{{}}@/ledger?host={host}&port=5432"
        owner = Ledger(url.format("dp_release_owner"), None)
        assert owner.releases() == ()
        subprocess.run(
            [*psql, "-d", "ledger", "-f", str(FOLDER / "sql" / "grants.sql")], check=True
        )
        job = Ledger(url.format("dp_release"), None)
        assert job.releases() == ()
        with psycopg.connect(f"host={host} user=dp_release dbname=ledger") as connection:
            for refused in (
                "DELETE FROM entries",
                "UPDATE entries SET position = 0",
                "DROP TABLE leases",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(refused)
                connection.rollback()
        for user, database in (("dp_release", "prefect"), ("prefect", "ledger")):
            with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
                psycopg.connect(f"host={host} user={user} dbname={database}")
    finally:
        for statement in (
            *("DROP DATABASE IF EXISTS ledger WITH (FORCE)", "DROP DATABASE IF EXISTS prefect"),
            "DROP ROLE IF EXISTS dp_release, dp_release_owner, prefect",
        ):
            subprocess.run([*psql, "-c", statement], check=False)


def test_the_container_that_the_page_runs_is_nobodys_root_and_keeps_what_must_be_kept():
    page = (ROOT / "docs" / "install.md").read_text().replace("\\\n", " ")
    demo, release = (line for line in page.splitlines() if line.startswith("docker run "))
    env = dict(each.split("=") for each in re.findall(r"--env (\S+)", release))
    mounts = dict(re.findall(r'--volume "\$PWD(/\w+)?:(\S+)"', release))
    image = dict(re.findall(r"([A-Z_]+)=(\S+)", DOCKERFILE))
    # Whatever the image keeps in a folder of its own user lies in a folder of the caller.
    own = {name for name, value in image.items() if value.startswith("/var/lib/")}
    assert own == {"HOME", "DP_RELEASE_HOME", "DP_RELEASE_STATE", "PREFECT_HOME"} == {*env}
    assert env["DP_RELEASE_HOME"] == mounts["/home"] == env["HOME"]
    assert env["DP_RELEASE_STATE"] == mounts["/state"]
    assert not env["DP_RELEASE_STATE"].startswith(env["DP_RELEASE_HOME"])
    assert env["PREFECT_HOME"].startswith(env["DP_RELEASE_HOME"])
    assert f"--workdir {mounts['']} " in release
    assert '--user "$(id -u):$(id -g)"' in release
    tag = re.search(r"^#   docker build .* -t (\S+) \.$", DOCKERFILE, re.MULTILINE)
    for line in (demo, release):
        assert f" {tag[1]} dp-release " in line
        assert "--privileged" not in line
        assert "--network none" in line
    assert re.search(rf"^docker build -f deployments/image/Dockerfile -t {tag[1]} \.$", page, re.M)
