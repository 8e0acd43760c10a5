"""Runs a small installation without containers: Prefect's server and worker, Dask, in one place.

    python deployments/local.py up FOLDER [--port 4200] [--dask] [--deploy FILE]
    python deployments/local.py down FOLDER

`up` stays in the foreground, as a service of systemd or a terminal wants it: it starts the parts,
starts again what ends, and ends them all when it is told to. Everything listens on 127.0.0.1, and
everything between the parts but the database is under TLS, with certificates of `tls.py`. In FOLDER
are certificates, logs and Prefect's files. From the environment come DP_RELEASE_HOME,
DP_RELEASE_LEDGER, PREFECT_API_DATABASE_CONNECTION_URL (default: SQLite in FOLDER) and every other
setting of Prefect and Dask; docs/deploy.md explains them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tls import make_certificates

from flows.engine.settings import DEFAULTS, QUIET

HERE = Path(__file__).parent
POOL = "dp-release"
PORT, DASK_PORT = 4200, 8786
ENOUGH = 180.0
"""Seconds within which a part must answer; Prefect's first start makes its tables."""
PAUSE = 1.0
"""Seconds before a part that ended is started again."""
GRACE = 20.0
"""Seconds in which a part may end by itself."""


@dataclass
class Part:
    """One process that is to run.

    Attributes:
        name: For the log and for people.
        command: Program and words.
        environment: All of it.
        process: While it runs.
        starts: How often it was started.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0


@dataclass
class Installation:
    """The parts of one installation, in the order of their start.

    Attributes:
        folder: Of certificates, logs and Prefect's files.
        port: Of Prefect's server.
        dask_port: Of Dask's scheduler, None for no Dask.
        threads: Of Dask's worker.
        settings: Environment of every part beside this process's own.
    """

    folder: Path
    port: int = PORT
    dask_port: int | None = None
    threads: int = 2
    settings: Mapping[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the certificates, and say what is to run."""
        make_certificates(self.tls)
        for name in ("logs", "prefect"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        python = [sys.executable, "-m"]
        server = [*python, "uvicorn", "--factory", "prefect.server.api.server:create_app"]
        server += ["--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning"]
        server += ["--ssl-certfile", str(self.tls / "server.pem")]
        server += ["--ssl-keyfile", str(self.tls / "server.key")]
        worker = [*python, "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
        wanted = {"server": server, "worker": [*worker, "--name", f"{socket.gethostname()}-1"]}
        if self.dask_port is not None:
            quiet = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
            dask = [*python, "distributed.cli.dask_scheduler", "--protocol", "tls"]
            dask += ["--host", "127.0.0.1", "--port", str(self.dask_port), *quiet]
            wanted["scheduler"] = dask + self._dask_files("scheduler")
            dask = [*python, "distributed.cli.dask_worker", str(self.dask_address), "--no-nanny"]
            dask += ["--host", "127.0.0.1", "--nthreads", str(self.threads), *quiet]
            dask += ["--local-directory", str(self.folder / "dask")]
            wanted["dask-worker"] = dask + self._dask_files("dask-worker")
        environment = self.environment()
        self.parts = [Part(name, command, environment) for name, command in wanted.items()]

    @property
    def tls(self) -> Path:
        """Folder of the certificates."""
        return self.folder / "tls"

    @property
    def url(self) -> str:
        """Of Prefect's API."""
        return f"https://127.0.0.1:{self.port}/api"

    @property
    def dask_address(self) -> str | None:
        """Of Dask's scheduler, None without."""
        return None if self.dask_port is None else f"tls://127.0.0.1:{self.dask_port}"

    def environment(self) -> dict[str, str]:
        """Return the environment of every part, and of whoever talks to them."""
        ca = str(self.tls / "ca.pem")
        usual = {
            # The same as of a release by command, but for what a part may say in its own log.
            **DEFAULTS,
            "PREFECT_LOGGING_LEVEL": "WARNING",
            "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
            "PREFECT_HOME": str(self.folder / "prefect"),
            "PREFECT_API_DATABASE_CONNECTION_URL": (
                f"sqlite+aiosqlite:///{self.folder / 'prefect' / 'prefect.db'}"
            ),
            # Leases of places in a concurrency limit must outlive the server's process.
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
                "prefect.server.concurrency.lease_storage.filesystem"
            ),
            "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",
            # Parts in memory are counts: they may not be written anywhere.
            "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "false",
            "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "false",
        }
        fixed = {
            **QUIET,
            "PREFECT_API_URL": self.url,
            "PREFECT_API_SSL_CERT_FILE": ca,
            "PREFECT_UI_API_URL": self.url,
            # What is left of the scheduler's pages would list tasks to every user of this machine.
            "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "['distributed.http.health']",
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": ca,
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": str(self.tls / "client.pem"),
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": str(self.tls / "client.key"),
        }
        return {**usual, **os.environ, **self.settings, **fixed}

    def start(self, part: Part) -> None:
        """Start a part; its output is added to its log."""
        log = self.folder / "logs" / f"{part.name}.log"
        with log.open("ab") as file:
            part.process = subprocess.Popen(
                part.command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=dict(part.environment),
                # Its children are in its group, and go with it when all ends.
                start_new_session=True,
            )
        part.starts += 1

    def up(self) -> None:
        """Start every part, and wait until the server answers."""
        server, *others = self.parts
        self.start(server)
        self.wait()
        for part in others:
            self.start(part)

    def wait(self) -> None:
        """Wait until the server answers."""
        context = ssl.create_default_context(cafile=self.tls / "ca.pem")
        until = time.monotonic() + ENOUGH
        while True:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{self.url}/health", context=context, timeout=5),
            ):
                return
            if time.monotonic() > until or not self.runs(self.parts[0]):
                sys.exit(f"The server does not start; see {self.folder / 'logs' / 'server.log'}.")
            time.sleep(0.2)

    def runs(self, part: Part) -> bool:
        """Whether a part's process is there."""
        return part.process is not None and part.process.poll() is None

    def mend(self) -> list[str]:
        """Start again what ended; return the names."""
        ended = [part for part in self.parts if not self.runs(part)]
        for part in ended:
            self.start(part)
        return [part.name for part in ended]

    def down(self) -> None:
        """End every part, the last one first, with all that it started."""
        for part in reversed(self.parts):
            if part.process is not None and part.process.poll() is None:
                part.process.terminate()
        for part in reversed(self.parts):
            if part.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                part.process.wait(GRACE)
            # What is left of its group: runs of a worker, or itself.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part.process.pid, signal.SIGKILL)
            part.process.wait()

    def run(self, *words: str) -> None:
        """Run a command of Prefect's to its end, without questions."""
        subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            check=True,
        )

    def _dask_files(self, part: str) -> list[str]:
        files = {"ca-file": "ca.pem", "cert": f"{part}.pem", "key": f"{part}.key"}
        return [
            word for name, file in files.items() for word in (f"--tls-{name}", str(self.tls / file))
        ]


@contextlib.contextmanager
def told_to_end() -> Iterator[list[int]]:
    """Give a list that is no longer empty once somebody asked this process to end."""
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda found, _frame: asked.append(found))
    yield asked


def serve(installation: Installation, deploy: Path | None) -> None:
    """Keep an installation up until this process is told to end."""
    pid = installation.folder / "local.pid"
    pid.write_text(str(os.getpid()))
    with told_to_end() as asked:
        try:
            installation.up()
            if deploy is not None:
                with contextlib.suppress(subprocess.CalledProcessError):
                    installation.run(
                        "work-pool", "create", POOL, "--type", "process", "--overwrite"
                    )
                installation.run("deploy", "--all", "--prefect-file", str(deploy))
            sys.stdout.write(f"Prefect: {installation.url.removesuffix('/api')}\n")
            sys.stdout.write(f"Dask: {installation.dask_address or 'none'}\n")
            sys.stdout.flush()
            while not asked:
                time.sleep(PAUSE)
                for name in [] if asked else installation.mend():
                    sys.stdout.write(f"{name} ended and was started again.\n")
                    sys.stdout.flush()
        finally:
            installation.down()
            pid.unlink(missing_ok=True)


def end(folder: Path) -> None:
    """End the `up` of a folder, and wait for it."""
    pid = folder / "local.pid"
    try:
        os.kill(int(pid.read_text()), signal.SIGTERM)
    except (OSError, ValueError):
        pid.unlink(missing_ok=True)
        sys.exit(f"Nothing is up in {folder}.")
    while pid.exists():
        time.sleep(0.2)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("do", choices=("up", "down", "environment"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--dask", action="store_true", help="Also a Dask scheduler and worker.")
    parser.add_argument("--dask-port", type=int, default=DASK_PORT)
    parser.add_argument("--deploy", type=Path, metavar="FILE", help="Deployments to apply.")
    given = parser.parse_args()
    folder = given.folder.absolute()
    if given.do == "down":
        end(folder)
        return
    installation = Installation(folder, given.port, given.dask_port if given.dask else None)
    if given.do == "up":
        serve(installation, given.deploy)
        return
    for name in ("PREFECT_API_URL", "PREFECT_API_SSL_CERT_FILE", "PREFECT_HOME"):
        sys.stdout.write(f"export {name}={installation.environment()[name]}\n")


if __name__ == "__main__":
    main()
