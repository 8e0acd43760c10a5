"""The files that must be read to trust the privacy of a release, computed from the imports.

    python -m tests.trusted_core             prints them, with their lines
    python -m tests.trusted_core --page      the same as docs/trusted-core.md
    python -m tests.trusted_core --digest    one hash of all of them, and of `AUDITED_TOO`

A file belongs to the trusted core if it

- may hold rows or exact counts: it lies in a confidential room, or imports from one;
- lies in the kernel, or decides what a release costs and is named in `DECIDES`;
- records what a release cost: it lies in `tasks/ledger`, calls a method of the ledger that binds or
  ends a reservation, or is named in `RECORDS`;
- keeps the data out of the errors that Prefect stores: it is named in `GUARDS`;
- or lies below the confidential side, and is imported by it, the ledger or the counting.

`dp_core/audit` holds generated files only, `dp_core/inspection` shows a file to a person who may
see it, and `dp_core/public_data` has frames that the caller declares public. No release imports
them.

The rooms beyond the wall (`methods`, `spec`, `bundle`, `analysis`) may import neither the
confidential side nor the noise: import contracts in `pyproject.toml` refuse it.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "trusted-core.md"

CONFIDENTIAL = ("dp_core.confidential", "tasks.inputs", "tasks.validation", "tasks.counting")
"""Rooms that hold rows or exact counts."""
HANDLES = (
    "dp_core.kernel.counting.marginal",
    "tasks.confidential.confidential_run",
    "tasks.confidential.file_work",
    "tasks.confidential.host",
    "tasks.confidential.internal_evaluation",
    "tasks.confidential.internal_inference",
)
"""Modules whose objects reach rows or exact counts, or whose functions take an opened file: a
module that imports one may hold them."""
AUDIT = ("dp_core.audit",)
"""Room that counts generated files exactly, and replaces the samplers while it asks about them."""
PUBLIC_DATA = ("dp_core.public_data",)
"""Room that counts public frames in memory, for `dp_core.release`: no release imports it."""
INSPECTION = ("dp_core.inspection", "flows.cli.actions.file_check")
"""What shows a file to a person who may see it: no release imports it, and it writes nothing."""
BEYOND = tuple(f"dp_core.{room}" for room in ("methods", "plan", "bundle", "analysis", "lab"))
"""Rooms that the import contracts keep from the data."""
FINDS = {"dp_core.schema.column_types.registry": "dp_core.schema.column_types"}
"""Modules that import all modules of a folder by their names, and the folder."""
DECIDES = (
    "dp_core.plan.fixed_plan",
    "dp_core.methods.registry",
    "dp_core.methods.selection.selector",
)
"""Modules beyond the wall that decide a cost all the same: by the class of its selection, a release
may be accounted for as one that no answer influenced."""
WRITES = frozenset(
    (
        "reserve",
        "bind_input",
        "charge",
        "record_redraw",
        "commit",
        "settle",
        "decide",
        "await_approval",
    )
)
"""Methods of the two writers of a release that write its entries."""
RECORDS = ("tasks.support.run_folder", "flows.releases.start_check")
"""Modules outside `tasks/ledger` by which it knows which noisy results exist: if one overlooks a
result, it is drawn again, or its budget is returned."""
GUARDS = (
    "dp_core.errors",
    "flows.engine.engine_failures",
    "tasks.confidential.frames",
    "tasks.confidential.messages",
    "tasks.confidential.plain_values",
    "tasks.run.stage_failures",
)
"""Modules that decide what leaves the confidential process, and what an error may carry."""
TESTS = (
    "tests/crashes",
    "tests/distributions",
    "tests/dp_core/accounts",
    "tests/dp_core/audit",
    "tests/dp_core/kernel",
    "tests/flows/engine/test_configured_server.py",
    "tests/flows/engine/test_forked_server.py",
    "tests/flows/engine/test_own_server.py",
    "tests/flows/engine/test_prefect_tables.py",
    "tests/flows/test_counting.py",
    "tests/flows/test_database_gone.py",
    "tests/flows/test_leak_fence.py",
    "tests/tasks/counting",
    "tests/tasks/ledger",
    "tests/tasks/support",
    "tests/tasks/validation",
    "tests/test_vectors.py",
)
"""Tests of the trusted core, and of Prefect's servers, Dask clusters and Great Expectations, alone;
`make test` leaves them out once they passed for this digest."""
AUDITED_TOO = (
    "requirements.lock",
    "deployments/*.py",
    "deployments/*.yaml",
    "dp_core/accounts/*.py",
    "dp_core/audit/**/*.py",
    "dp_core/bundle/statement/spent_budget.py",
    "dp_core/bundle/writer.py",
    "dp_core/schema/expectations/*.py",
    "dp_core/plan/counting_cluster.py",
    "dp_core/plan/steps/*.py",
    "flows/*.py",
    "flows/cli/main.py",
    "flows/cli/command_parts.py",
    "flows/cli/actions/run_release.py",
    "flows/engine/*.py",
    "flows/monitoring/*.py",
    "flows/releases/*.py",
    "tasks/**/*.py",
    "tests/clusters.py",
    "tests/databases.py",
    "tests/dp_core/bundle/recomputed.py",
    "tests/flows/leaks.py",
    "tests/flows/network.py",
    "tests/flows/sabotage.py",
    "tests/postgres.py",
    "tests/processes.py",
    "tests/vectors/*",
    "tests/workers.py",
    *(test if test.endswith(".py") else f"{test}/**/*.py" for test in TESTS),
)
"""Files whose change asks for `make test-all` as well: the tests that are left out and what else
they test; all stages, and what else could put an error's text where it is kept; and what changes
how flows, servers and clusters run, of which many tests are in `make test-all` only."""
BELOW = ("dp_core.tables", "dp_core.text.documents", "dp_core.metrics", "dp_core.schema")
"""Rooms between the kernel and what holds rows."""
CORE = ("dp_core.kernel", "dp_core.confidential", "tasks.ledger", "tasks.counting")
"""Rooms whose imports from the rooms below have to be right for the privacy to be right."""

PARTS = {
    "kernel": "The kernel: codes, exact counts, questions, noise, costs and the ledger's rules",
    "holds": "May hold rows or exact counts",
    "decides": "Decides what a release costs, outside the kernel",
    "records": "Records what a release cost",
    "guards": "Keeps the data out of messages and errors",
    "below": "Imported by these from the rooms below",
}


OUTSIDE = (
    "",
    "## What the list leaves out",
    "",
    "Some files outside the list handle confidential or exact figures. A mistake in them does not",
    "reach a published file:",
    "",
    "- **`schema check`** (`dp_core/inspection` and",
    "  [file_check.py](../flows/cli/actions/file_check.py)) reads a data file and shows its rows,",
    "  values and counts on the terminal of a person who may see them. No release imports it, and",
    "  it writes no file.",
    "- **`dp_core/public_data`** computes exact counts of frames that the caller states to be",
    "  public. No release imports it.",
    "- **`dp_core/audit`** computes exact counts of generated files. No release imports it.",
    "- **Internal pages**: `utility.html` and the pages that compare a release with its file show",
    "  confidential figures. Files of the list read the data and write the pages; other files",
    "  compute comparisons, draw them and format the figures. A mistake in these files can",
    "  affect only the internal folder. [Security](security.md#internal-pages) says what keeps",
    "  the pages there.",
    "",
    "`dp_core/accounts` computes from receipts alone. A mistake there changes no noise and no",
    "charge. It could make the `tightest` epsilon of a statement too small, not `enforced`.",
)
"""Part of the page about files that handle confidential figures and are not in the list."""


def within(module: str, rooms: tuple[str, ...]) -> bool:
    """Return whether a module is one of some rooms, or lies in one."""
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


@cache
def modules() -> dict[str, Path]:
    """Return all modules of the program."""
    found = {}
    for package in ("dp_core", "tasks", "flows"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """Return the modules that a module imports anywhere in it, also for types only."""
    found = set()
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                name if (name := f"{node.module}.{alias.name}") in modules() else node.module
                for alias in node.names
            }
    if folder := FINDS.get(module):
        found |= {other for other in modules() if within(other, (folder,)) and other != module}
    return frozenset(found & modules().keys())


@cache
def writes(module: str) -> bool:
    """Return whether a module outside dp_core calls a method that writes an entry of a release."""
    return not within(module, ("dp_core",)) and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in WRITES
        for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8")))
    )


def is_confidential(module: str) -> bool:
    """Return whether objects of a module hold rows or exact counts, or reach them."""
    return within(module, CONFIDENTIAL) or module in HANDLES


def trusted() -> dict[str, str]:
    """Return the modules of the trusted core with the part of it that each belongs to."""
    found: dict[str, str] = {}
    for module in modules():
        if within(module, (*AUDIT, *INSPECTION, *PUBLIC_DATA)):
            continue
        if within(module, ("dp_core.kernel",)):
            found[module] = "kernel"
        elif module in DECIDES:
            found[module] = "decides"
        elif within(module, ("tasks.ledger",)):
            found[module] = "records"
        elif module in GUARDS:
            found[module] = "guards"
        elif is_confidential(module) or any(map(is_confidential, imports(module))):
            found[module] = "holds"
        elif module in RECORDS or writes(module):
            found[module] = "records"
    ahead = [module for module in found if within(module, CORE) or module in DECIDES]
    while ahead:
        for each in imports(ahead.pop()):
            if each not in found and within(each, BELOW):
                found[each] = "below"
                ahead.append(each)
    return found


def lines(module: str) -> int:
    """Return the number of lines of a module."""
    return len(modules()[module].read_text(encoding="utf-8").splitlines())


def audited_files() -> set[Path]:
    """Return the files whose change asks for `make test-all`."""
    core = {modules()[module] for module in trusted()}
    return core | {path for each in AUDITED_TOO for path in ROOT.glob(each) if path.is_file()}


def digest() -> str:
    """Return one hash of the trusted core, of `AUDITED_TOO`, and of the version of Python."""
    whole = hashlib.sha256("Python {}.{}\n".format(*sys.version_info).encode())
    for path in sorted(audited_files()):
        whole.update(f"{path.relative_to(ROOT)}\n".encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


def audited() -> bool:
    """Return whether `make test-all` passed for this digest; `make test-all` notes it."""
    note = ROOT / "tests/audited.txt"
    return note.is_file() and note.read_text(encoding="ascii").strip() == digest()


def about(number: int) -> str:
    """Return a number of lines to the nearest 500: small changes leave the page alone."""
    return f"about {max(1, round(number / 500)) * 500:,}"


def rooms_of(own: list[str]) -> list[str]:
    """Return the folders of modules, in order."""
    return sorted({str(modules()[module].parent.relative_to(ROOT)) for module in own})


def page() -> str:
    """Return docs/trusted-core.md."""
    found = trusted()
    total = about(sum(map(lines, found)))
    text = [
        "# The trusted core",
        "",
        "*For privacy officers and reviewers.*",
        "",
        "To trust the privacy of a release, read these files, and no others:",
        f"{len(found)} files, {total} lines with comments and docstrings.",
        "A mistake in any other file can make a release less accurate, but not less private,",
        "provided that these files are given what was meant. The statement says what they were",
        "given: unit, columns, relation and budget. The ledger reserves the hash of these.",
        "`make trusted` prints the list with the exact number of lines of each file.",
        "",
        "[tests/trusted_core.py](../tests/trusted_core.py) computes the list from the imports, and",
        "a test compares this page with it. `make trusted-page` writes the page anew.",
        *OUTSIDE,
    ]
    for part, title in PARTS.items():
        own = sorted(module for module, kind in found.items() if kind == part)
        text += ["", f"## {title}", "", f"{about(sum(map(lines, own))).capitalize()} lines.", ""]
        if part == "kernel":
            # One folder, of which every file counts; `make trusted` names them.
            text += [f"- [{room}](../{room})" for room in rooms_of(own)]
            continue
        for module in own:
            file = modules()[module].relative_to(ROOT)
            text.append(f"- [{file}](../{file})")
    return "\n".join(text) + "\n"


def main() -> None:
    """Print what was asked for."""
    words = sys.argv[1:]
    if words == ["--digest"]:
        answer = digest() + "\n"
    elif words == ["--page"]:
        answer = page()
    else:
        found = trusted()
        answer = ""
        for part, title in PARTS.items():
            own = sorted(module for module, kind in found.items() if kind == part)
            answer += f"{title}: {len(own)} files, {sum(map(lines, own)):,} lines\n"
            for module in own:
                answer += f"  {lines(module):>5}  {modules()[module].relative_to(ROOT)}\n"
        answer += f"The trusted core: {len(found)} files, {sum(map(lines, found)):,} lines\n"
    sys.stdout.write(answer)


if __name__ == "__main__":
    main()
