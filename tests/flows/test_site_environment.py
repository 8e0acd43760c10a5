"""What a site sets for all programs does not stop a release, or is named before it begins.

Each test runs the real command in a process of its own; nothing leaves loopback.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from dp_core.errors import BadInput
from flows.engine.settings import DEFAULTS
from flows.engine.site_settings import require_usable_values
from tasks.support.dask_cluster import compute
from tasks.support.process_environment import correct_environment
from tests.new_python import new_python
from tests.raising import raising

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("dp-release")
NOBODY = "http://127.0.0.1:9"
NAMES = ("PREFECT_", "DASK_", "NUMBA_", "SSL_", "DP_RELEASE_", "PYTHON", "LC_", "LANG")


class Site:
    """A small release, and a home with an account."""

    def __init__(self, place: Path) -> None:
        self.place, self.home = place, place / "home"
        rows = "".join(f"{'äb'[i % 2]},{i % 3}\n" for i in range(300))
        (place / "daten-ä.csv").write_text(f"a,b\n{rows}", encoding="utf-8")
        (place / "s.yaml").write_text(
            "{version: 1, title: T, rows_about: 300, columns: {a: {type: category, levels:"
            " [ä, b]}, b: {type: category, levels: [0, 1, 2]}}}",
            encoding="utf-8",
        )
        (place / "r.yaml").write_text(
            "{version: 1, release: r, data: daten-ä.csv, schema: s.yaml, account: a,"
            " privacy: {epsilon: 1}}",
            encoding="utf-8",
        )

    def run(
        self, *arguments: str, umask: int = -1, **changes: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command in an environment with these changes; None removes a variable."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(NAMES) and not name.lower().endswith("_proxy")
        }
        own = {
            "DP_RELEASE_HOME": str(self.home),
            "DP_RELEASE_STATE": str(self.place / "state"),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }
        found = {**kept, **own, **changes}
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self.place,
            env={name: value for name, value in found.items() if value is not None},
            umask=umask,
            capture_output=True,
            encoding="utf-8",
            errors="strict",
            check=False,
            timeout=600,
        )

    def open_account(self, **options: object) -> None:
        opened = self.run(
            *("ledger", "open", "a", "--epsilon", "4", "--delta", "0"),
            *("--by", "X", "--reason", "y"),
            **options,  # type: ignore[arg-type]
        )
        assert opened.returncode == 0, opened.stderr

    def used(self) -> list[float]:
        """Return the epsilon that is reserved, and that is spent."""
        shown = json.loads(self.run("ledger", "show", "a", "--json").stdout)
        return [shown[name]["epsilon"] for name in ("reserved", "spent")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    made = Site(tmp_path_factory.mktemp("site"))
    made.open_account()
    return made


@pytest.mark.slow
def test_a_release_is_made_behind_a_proxy_without_utf8_and_under_any_umask(
    tmp_path, with_prefects_tables
):
    site = Site(tmp_path)
    with_prefects_tables(site.home / "prefect")
    strange = {
        **dict.fromkeys(("HTTP_PROXY", "http_proxy", "https_proxy"), NOBODY),
        "ALL_PROXY": "socks5://127.0.0.1:9",
        "no_proxy": "example.org",
        "PYTHONUTF8": "0",
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONOPTIMIZE": "2",
        "TMPDIR": "/nonexistent",
        "COLUMNS": "x",
        "TZ": "Nowhere/Else",
        "OMP_NUM_THREADS": "x",
        "NUMBA_DISABLE_JIT": "1",
        "NUMBA_OPT": "x",
        "DASK_POOL": "x",
        "DASK_SCHEDULER": "x",
        "DASK_CHUNKSIZE": "x",
    }
    site.open_account(umask=0o777, **strange)

    done = site.run("run", "r.yaml", "--out", "aus-ä", umask=0o777, **strange)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "aus-ä" / "release.json").is_file()
    asked = site.run("query", "aus-ä", "share of a = ä", umask=0o777, **strange)
    assert "ä" in asked.stdout
    for path in site.home.rglob("*"):
        mode = path.lstat().st_mode
        if not path.is_symlink():
            assert mode & stat.S_IRUSR, path
        if path.is_dir() and not path.is_symlink():
            assert stat.S_IMODE(mode) == 0o700, path


@pytest.mark.runbook("environment")
@pytest.mark.parametrize(
    ("file", "text", "variable", "value", "named"),
    [
        ("dask/d.yaml", "a: [b", "DASK_CONFIG", "{place}/dask", "dask/d.yaml"),
        ("p.toml", "active = [[", "PREFECT_PROFILES_PATH", "{place}/p.toml", "p.toml"),
        (None, "", "PREFECT_API_REQUEST_TIMEOUT", "hunter2", "PREFECT_API_REQUEST_TIMEOUT"),
        (None, "", "PREFECT_LOGGING_LEVEL", "hunter2", "PREFECT_LOGGING_LEVEL"),
        (None, "", "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "false", "ALLOW_EPHEMERAL_MODE"),
        ("none.pem", "", "SSL_CERT_FILE", "{place}/none.pem", "SSL_CERT_FILE"),
    ],
)
def test_a_setting_that_stops_a_release_is_named_and_nothing_is_reserved(
    site, says, file, text, variable, value, named
):
    if file:
        (site.place / file).parent.mkdir(exist_ok=True)
        (site.place / file).write_text(text)

    done = site.run(
        *("run", "r.yaml", "--out", "out"), **{variable: value.format(place=site.place)}
    )

    says(done.stderr)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert site.used() == [0, 0]
    assert not (site.home / "runs").exists()


@pytest.mark.runbook("environment")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PREFECT_API_REQUEST_TIMEOUT", "0"),
        ("PREFECT_API_REQUEST_TIMEOUT", "0.000001"),
        ("PREFECT_RESULTS_DEFAULT_SERIALIZER", "hunter2"),
    ],
)
def test_of_several_variables_only_that_with_an_impossible_value_is_named(site, says, name, value):
    others = {
        "DASK_TEMPORARY_DIRECTORY": "/nonexistent",
        "PREFECT_FLOWS_DEFAULT_RETRIES": "0",
        "PREFECT_LOCAL_STORAGE_PATH": "/nonexistent",
        "PREFECT_PROFILE": "nobody",
    }
    done = site.run("run", "r.yaml", "--out", "out", **others, **{name: value})

    says(done.stderr)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert name in last
    assert not any(other in last for other in others)
    assert "hunter2" not in done.stderr
    assert site.used() == [0, 0]
    assert not (site.home / "runs").exists()


@pytest.mark.runbook("results-stored")
def test_a_setting_that_would_tell_of_a_run_stops_it_before_it_begins(site, says):
    name = "prefect_logging_extra_loggers"
    done = site.run("run", "r.yaml", "--out", "out", **{name: "dask"})
    says(done.stderr)
    assert (done.returncode, name in done.stderr) == (2, True)
    assert site.used() == [0, 0]
    assert not (site.home / "runs").exists()


@pytest.fixture
def clear(tmp_path, monkeypatch):
    """An environment without settings of a site, in an empty working folder."""
    for name in list(os.environ):
        if name.upper().startswith(NAMES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.chdir(tmp_path)
    for made in ("empty", "not.yaml"):
        Path(made).write_text("" if made == "empty" else "a: [hunter2")


@pytest.mark.runbook("environment")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "hunter2.pem"),
        ("SSL_CERT_FILE", "empty"),
        ("SSL_CERT_FILE", "."),
        ("PREFECT_API_SSL_CERT_FILE", "hunter2.pem"),
        ("prefect_api_ssl_cert_file", "empty"),
        ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql://ada:hunter2@h/d"),
        ("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql+asyncpg://h:hunter2/d"),
        ("PREFECT_API_DATABASE_CONNECTION_URL", "hunter2"),
        ("PREFECT_LOGGING_SETTINGS_PATH", "not.yaml"),
        ("PREFECT_LOGGING_CONFIG_PATH", "."),
        ("PREFECT_API_REQUEST_TIMEOUT", "-1"),
        ("prefect_api_request_timeout", "inf"),
        ("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "0"),
    ],
)
@pytest.mark.usefixtures("clear")
def test_a_variable_that_a_library_cannot_use_is_named(monkeypatch, says, name, value):
    monkeypatch.setenv(name, value)

    with pytest.raises(BadInput) as failure:
        require_usable_values()

    says(failure.value)
    assert str(failure.value).startswith(f"{name} ")
    assert "hunter2" not in str(failure.value)


@pytest.mark.usefixtures("clear")
def test_values_that_libraries_can_use_are_accepted(monkeypatch):
    import certifi

    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    monkeypatch.setenv("PREFECT_API_SSL_CERT_FILE", "")
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql+asyncpg://a:b@h/d")
    monkeypatch.setenv("PREFECT_LOGGING_SETTINGS_PATH", "empty")
    Path(".numba_config.yaml").write_text("disable_jit: 1")
    require_usable_values()

    # Prefect's own database does not matter if another server is named.
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql://h/d")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    require_usable_values()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("prefect.toml", '[logging]\nlevel = "hunter2"'),
        (".env", "PREFECT_LOGGING_LEVEL=hunter2"),
        ("pyproject.toml", '[tool.prefect.logging]\nlevel = "hunter2"'),
        ("prefect.toml", '[api]\nssl_cert_file = "hunter2"'),
        ("prefect.toml", "[api]\nrequest_timeout = 0"),
        (".env", "export PREFECT_SERVER_DATABASE_CONNECTION_URL=postgresql://hunter2@h/d"),
    ],
)
@pytest.mark.usefixtures("clear")
def test_the_file_that_has_a_setting_is_named_and_no_variable(monkeypatch, file, text):
    for innocent, value in DEFAULTS.items():
        monkeypatch.setenv(innocent, value)
    for other in {"prefect.toml", ".env", "pyproject.toml"} - {file}:
        Path(other).write_text('[a]\nb = "level"' if other.endswith("toml") else "A=level")
    if "logging" in text.lower():
        monkeypatch.delenv("PREFECT_LOGGING_LEVEL")
    Path(file).write_text(text)

    message = python("prefect_settings")

    assert f"in {file}" in message
    assert not any(name in message for name in DEFAULTS)
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (None, "dask"),
        ("prefect.toml", '[logging]\nextra_loggers = "dask"'),
        ("prefect/profiles.toml", 'active="a"\n[profiles.a]\nPREFECT_LOGGING_EXTRA_LOGGERS="dask"'),
        (".env", "PREFECT_RESULTS_PERSIST_BY_DEFAULT=true"),
    ],
)
@pytest.mark.usefixtures("clear")
def test_what_would_tell_of_a_run_is_found_wherever_it_is_set(monkeypatch, file, text):
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    if file is None:
        monkeypatch.setenv("prefect_logging_extra_loggers", text)
    else:
        Path("prefect").mkdir()
        Path(file).write_text(text)

    message = python("require_quiet_settings", "prefect_settings()")

    assert (file or "prefect_logging_extra_loggers") in message


def python(check: str, options: str = "") -> str:
    """Return what a check of this environment says in a new process."""
    code = (
        "from dp_core.errors import BadInput\n"
        "from flows.engine.settings import require_quiet_settings\n"
        "from flows.engine.site_settings import prefect_settings\n"
        f"try: {check}({options})\n"
        "except BadInput as error: print(error)"
    )
    done = new_python(code)
    assert not done.stderr
    return done.stdout


@pytest.mark.usefixtures("clear")
def test_options_of_numba_are_removed(monkeypatch):
    Path(".numba_config.yaml").write_text("disable_jit: 1")
    for name in ("NUMBA_DISABLE_JIT", "NUMBA_OPT", "NUMBA_DUMP_IR", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, "1")

    correct_environment()

    left = {name: text for name, text in os.environ.items() if name.startswith("NUMBA_")}
    assert left == {"NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": "1"}
    config = new_python("from numba import config; print(config.DISABLE_JIT)")
    assert config.stdout == "0\n"


def test_counting_takes_no_scheduler_from_the_configuration_of_a_site():
    import dask.config

    wrong = dict.fromkeys(
        ("pool", "scheduler", "cache", "chunksize", "num_workers", "rerun_exceptions_locally"), "x"
    )
    with dask.config.set(wrong):
        assert compute({"a": (abs, -2), "b": (abs, "a")}, "b", None) == 2


@pytest.mark.parametrize("found", ["example.org, 10.0.0.0/8", "", None])
def test_loopback_goes_through_no_proxy(monkeypatch, found):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if found is not None:
        monkeypatch.setenv("NO_PROXY", found)
    monkeypatch.setenv("HTTP_PROXY", NOBODY)
    monkeypatch.setenv("ALL_PROXY", ":::no proxy")

    before = os.umask(0o077)
    os.umask(before)
    correct_environment()
    os.umask(before)

    hosts = os.environ["no_proxy"].split(",")
    assert {"127.0.0.1", "localhost", "::1"} < {*hosts, "example.org"}
    assert ("10.0.0.0/8" in hosts) == bool(found)
    assert os.environ["HTTP_PROXY"] == NOBODY
    assert "ALL_PROXY" not in os.environ


@pytest.mark.parametrize("proxy", [None, NOBODY])
@pytest.mark.parametrize("found", ["fd00::/8", "2001:db8::/32, [::1", "[fd00::1]:8080", "a:b:c"])
def test_hosts_that_the_client_cannot_read_are_left_out(monkeypatch, found, proxy):
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", f"{found},10.0.0.0/8,.intern.example:80")
    if proxy is not None:
        monkeypatch.setenv("HTTP_PROXY", proxy)
    correct_environment()
    httpx.Client().close()
    assert os.environ["no_proxy"].split(",")[:2] == ["10.0.0.0/8", ".intern.example:80"]


@pytest.mark.runbook("environment")
def test_a_user_without_a_folder_learns_what_to_set(monkeypatch, says):
    from tasks.run.home_folder import home

    monkeypatch.delenv("DP_RELEASE_HOME", raising=False)
    monkeypatch.setattr(
        Path, "expanduser", raising(RuntimeError("Could not determine home directory."))
    )
    with pytest.raises(BadInput, match="set DP_RELEASE_HOME") as failure:
        home()
    says(failure.value)
