"""A throw-away PostgreSQL for tests: its own cluster in its own folder, gone when they end.

Nothing listens on the network: the only way in is a socket in a folder of mode 0700. One cluster
per process (with pytest-xdist: per worker), so that a test may stop it without disturbing others.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kept_connections import let_go

PORT = 5432  # names the socket only
SECONDS = 60  # how long a start or a stop may take
SUPERUSER = "postgres"
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    # A commit is with the operating system before it is acknowledged, which outlives any killed
    # process; only a power failure would lose it. `synchronous_commit` stays on for that.
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_wal_size": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "lc_messages": "C",
}

# PostgreSQL refuses root, and ends itself when whoever started it dies. Done in a launcher, not
# between fork and exec of a process with threads; the signal is asked for after the change of user,
# which would clear it.
LAUNCHER = """
import ctypes, os, signal, sys
parent, uid, gid, *command = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit("whoever started it is dead")
os.execv(command[0], command)
"""


class Unavailable(Exception):
    """There is no PostgreSQL here, or it cannot start; the message says why."""


class PostgresServer:
    """One cluster; a context manager that starts it and leaves nothing behind.

    Attributes:
        folder: Data, socket and log.
    """

    def __init__(self) -> None:
        """Make the cluster; `start` starts it.

        Raises:
            Unavailable: if a program is missing or fails.
        """
        self._programs = find_programs()
        self._user = _owner()
        self.folder = Path(tempfile.mkdtemp(prefix="dp-release-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        try:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self._initialise()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> PostgresServer:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def pid(self) -> int | None:
        """Process of the server, None while it is stopped."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process else None

    def url(self, database: str = SUPERUSER) -> str:
        """Return the SQLAlchemy URL of a database."""
        return f"postgresql+psycopg://{SUPERUSER}@/{database}?host={self.folder}&port={PORT}"

    def create_database(self) -> str:
        """Return the URL of a fresh, empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def copy_database(self, source: str, target: str) -> None:
        """Put a copy of a database, to which nobody is connected, in the place of another."""
        self.drop_database(target)
        let_go(source)
        source, target = (_name(url) for url in (source, target))
        self._execute(f"CREATE DATABASE {target} TEMPLATE {source}")

    def drop_database(self, url: str) -> None:
        """Drop a database of `create_database`, whoever is connected to it."""
        let_go(url)
        self._execute(f"DROP DATABASE IF EXISTS {_name(url)} WITH (FORCE)")

    def start(self) -> None:
        """Start the server, unless it runs, and wait until it answers.

        Raises:
            Unavailable: if it does not.
        """
        if self.pid is not None:
            return
        settings = SETTINGS | {"unix_socket_directories": str(self.folder)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs["postgres"]), "-D", str(self._data), *words]
        who = [str(os.getpid()), str(self._user.pw_uid), str(self._user.pw_gid)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCHER, *who, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(),
                start_new_session=True,  # an interrupt from the keyboard is for the tests
            )
        self._wait()

    def stop(self) -> None:
        """Stop the server at once, as a crash does; sessions are cut off, commits are kept."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def remove(self) -> None:
        """Stop the server and delete everything it had."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _initialise(self) -> None:
        words = [
            *("--pgdata", str(self._data), "--username", SUPERUSER, "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
        ]
        root = os.geteuid() == 0
        try:
            done = subprocess.run(
                [str(self._programs["initdb"]), *words],
                capture_output=True,
                text=True,
                cwd=self.folder,
                env=_environment(),
                check=False,
                timeout=SECONDS,
                user=self._user.pw_uid if root else None,
                group=self._user.pw_gid if root else None,
                extra_groups=[] if root else None,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"initdb does not run: {error}") from None
        if done.returncode:
            raise Unavailable(f"initdb fails: {done.stderr.strip()[-500:]}")

    def _wait(self) -> None:
        import psycopg

        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self._execute("SELECT 1")
            except psycopg.OperationalError as error:
                if self.pid is None:
                    raise Unavailable(f"PostgreSQL ends at once: {self._last_words()}") from None
                if time.monotonic() > deadline:
                    self.stop()
                    raise Unavailable(f"PostgreSQL does not answer: {error}") from None
                time.sleep(0.02)
            else:
                return

    def _last_words(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace").strip()[-500:]

    def _execute(self, statement: str) -> None:
        import psycopg

        options: dict[str, Any] = {"host": str(self.folder), "port": PORT, "user": SUPERUSER}
        with psycopg.connect(**options, dbname=SUPERUSER, autocommit=True) as connection:
            connection.execute(statement.encode())


def _name(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def find_programs() -> dict[str, Path]:
    """Return where `initdb` and `postgres` are, both of one version.

    Looks into the folder that PG_BINDIR names and nowhere else; without it into PATH and the usual
    places, newest version first.

    Raises:
        Unavailable: if they are nowhere.
    """
    named = os.environ.get("PG_BINDIR")
    if named:
        places = [Path(named)]
    else:
        versions = Path("/usr/lib/postgresql").glob("*/bin")
        places = [
            *map(Path, os.get_exec_path()),
            *sorted(versions, key=lambda path: (len(path.parts[-2]), path.parts[-2]), reverse=True),
            Path("/usr/local/bin"),
        ]
    for place in places:
        # Followed to the end: PostgreSQL looks for its other files beside the program.
        found = {name: (place / name).resolve() for name in ("initdb", "postgres")}
        if all(os.access(path, os.X_OK) for path in found.values()):
            return found
    raise Unavailable(
        f"PostgreSQL is not installed (no initdb and postgres in {named or 'PATH'}); set PG_BINDIR"
    )


def _owner() -> pwd.struct_passwd:
    """Return who the server runs as: we ourselves, or somebody harmless if we are root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Unavailable("PostgreSQL does not run as root, and there is no user `postgres`")


def _environment() -> dict[str, str]:
    # Without the caller's PG* variables, and without a home that another user cannot enter.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[PostgresServer]:
    """The cluster of this process, started when the first test needs it."""
    pytest.importorskip("psycopg", reason="psycopg, the client of PostgreSQL, is not installed")
    try:
        server = PostgresServer()
        server.start()
    except Unavailable as why:
        pytest.skip(str(why))
    yield server
    server.remove()


@pytest.fixture
def postgres_server(postgres_cluster: PostgresServer) -> PostgresServer:
    """A running server; also after a test that stopped it and failed."""
    postgres_cluster.start()
    return postgres_cluster


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a fresh database."""
    url = postgres_server.create_database()
    yield url
    if postgres_server.pid is not None:
        postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh ledger, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
