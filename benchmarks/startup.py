"""What a command costs before it does anything: CPU and wall of short commands and small releases.

CPU is that of the process and of every process it starts and waits for, its own Prefect server
included, a server that runs already not. Two yardsticks in the same run: importing Prefect, and
importing Great Expectations. Releases are of the first 1,000 rows of the demo's survey. The least
of `--runs` runs, in turn; the first run of all is not counted, so compiled kernels are kept but for
the last row, which compiles them as the first run after an installation does.

    python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.metadata
import itertools
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from common import cpu_of_children

ROWS = 1000
COMMAND = [sys.executable, "-m", "flows.cli.main"]
PATIENCE = 120.0


@dataclass(frozen=True)
class Cost:
    """Seconds of one run."""

    cpu: float
    wall: float


class Bench:
    """A folder in which releases are made, each under a name of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = itertools.count(1)
        usual = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "DP_RELEASE_", "PYTHONDONTWRITEBYTECODE"))
        }
        self._usual = usual | {
            "DO_NOT_TRACK": "1",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DP_RELEASE_STATE": str(folder / "state"),
        }
        self.old_home = folder / "old-home"
        self.server_url = ""
        with gzip.open(resources.files("flows.demo") / "yrbss.csv.gz", "rt") as lines:
            (folder / "yrbss.csv").write_text("".join(itertools.islice(lines, ROWS + 1)))
        shutil.copy(str(resources.files("flows.demo") / "yrbss.schema.yaml"), folder)
        self.open_account(self.old_home)

    def run(self, command: list[str], **environment: str) -> Cost:
        """Return the cost of a command that has to succeed."""
        before, started = cpu_of_children(), time.monotonic()
        done = subprocess.run(
            command, env=self._usual | environment, cwd=self.folder, capture_output=True, text=True
        )
        wall = time.monotonic() - started
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        return Cost(cpu_of_children() - before, wall)

    def open_account(self, home: Path) -> None:
        """Open the account that pays for all releases of a home."""
        terms = [
            "--epsilon",
            "1000",
            "--delta",
            "1e-3",
            "--large-epsilon",
            "--by",
            "benchmark",
            "--reason",
            "time",
        ]
        self.run([*COMMAND, "ledger", "open", "yrbss", *terms], DP_RELEASE_HOME=str(home))

    def spec(self) -> tuple[Path, Path]:
        """Write the spec of a release that was not made before; return where its bundle goes."""
        name = f"small-{next(self._number)}"
        text = (resources.files("flows.demo") / "yrbss.release.yaml").read_text()
        text = text.replace("yrbss.csv.gz", "yrbss.csv").replace("yrbss-demo", name)
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path, self.folder / name

    def release(self, home: Path, **environment: str) -> Cost:
        """Return the cost of a release of 1,000 rows."""
        spec, out = self.spec()
        command = [*COMMAND, "run", str(spec), "--out", str(out)]
        return self.run(command, DP_RELEASE_HOME=str(home), **environment)

    def fresh_home(self) -> Path:
        """Return a home that has an account, and nothing of Prefect."""
        home = Path(tempfile.mkdtemp(dir=self.folder))
        self.open_account(home)
        return home

    def demo(self, **environment: str) -> Cost:
        """Return the cost of the demo in a fresh home."""
        home = tempfile.mkdtemp(dir=self.folder)
        return self.run([*COMMAND, "demo"], DP_RELEASE_HOME=home, **environment)

    def jobs(self) -> dict[str, Callable[[], Cost]]:
        """Return what is measured, by the words of the table."""
        spec, _ = self.spec()
        old = str(self.old_home)
        return {
            "`import prefect` alone": lambda: self.run([sys.executable, "-c", "import prefect"]),
            "`import great_expectations` alone": lambda: self.run(
                [sys.executable, "-W", "ignore", "-c", "import great_expectations"]
            ),
            "`dp-release --help`": lambda: self.run([*COMMAND, "--help"]),
            "`dp-release plan`": lambda: self.run(
                [*COMMAND, "plan", str(spec)], DP_RELEASE_HOME=old
            ),
            "1,000 rows, a running Prefect server": lambda: self.release(
                self.old_home, PREFECT_API_URL=self.server_url
            ),
            "1,000 rows, its own server, old home": lambda: self.release(self.old_home),
            "1,000 rows, its own server, fresh home": lambda: self.release(self.fresh_home()),
            "`dp-release demo`, fresh home": self.demo,
            "the same, nothing compiled": lambda: self.demo(
                NUMBA_CACHE_DIR=tempfile.mkdtemp(dir=self.folder)
            ),
        }

    @contextlib.contextmanager
    def server(self) -> Iterator[None]:
        """Let a Prefect server run meanwhile, on the loopback."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui"]
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", port],
            env=self._usual | {"PREFECT_HOME": str(self.folder / "server")},
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.server_url = f"http://127.0.0.1:{port}/api"
        try:
            until = time.monotonic() + PATIENCE
            while True:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{self.server_url}/health", timeout=5).close()
                    break
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("The Prefect server did not start.")
                time.sleep(0.5)
            yield
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    versions = [
        f"{name} {importlib.metadata.version(name)}"
        for name in ("prefect", "great_expectations", "numba")
    ]
    print(f"Python {platform.python_version()}, {', '.join(versions)}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        with bench.server():
            jobs = bench.jobs()
            bench.release(bench.old_home)
            bench.demo()
            found: dict[str, list[Cost]] = {words: [] for words in jobs}
            for _ in range(runs):
                for words, job in jobs.items():
                    found[words].append(job())
    print("\n| | CPU s | wall s |\n|---|---|---|")
    for words, costs in found.items():
        cpu, wall = min(cost.cpu for cost in costs), min(cost.wall for cost in costs)
        print(f"| {words} | {cpu:.2f} | {wall:.2f} |")


if __name__ == "__main__":
    main()
