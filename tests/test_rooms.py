"""The rooms: which may import which, how many files they hold, and what the trusted core is."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from copy import deepcopy
from functools import cache

import grimp
import pytest
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

from tests import trusted_core
from tests.trusted_core import ROOT, imports, modules

configure()
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINTER = SETTINGS["tool"]["importlinter"]
KINDS: dict[str, type[Contract]] = {"layers": LayersContract, "forbidden": ForbiddenContract}
FAMILIES = tuple(
    f"dp_core.methods.{family}" for family in ("selection", "reconstruction", "parametric")
)
MOST_FILES = 14
CLIENTS = (
    "flows",
    "tasks.stages",
    "tasks.run",
    "tasks.ledger.ledger",
    "tasks.confidential.client",
    "tasks.confidential.connection",
    "tasks.confidential.public_run",
)
"""What Prefect's process imports of a release."""


def order() -> list[list[str]]:
    """Return the rooms of dp_core from the lowest up; rooms of one floor are side by side."""
    (layers,) = (
        contract["layers"]
        for contract in LINTER["contracts"]
        if contract.get("containers") == ["dp_core"]
    )
    return [[room.strip() for room in layer.split("|")] for layer in reversed(layers)]


def forbidden_pairs() -> list[tuple[str, str]]:
    """Return every pair of rooms of which the first may not import the second."""
    floor = {room: number for number, layer in enumerate(order()) for room in layer}
    pairs = [
        (f"dp_core.{one}", f"dp_core.{other}")
        for one in floor
        for other in floor
        if one != other and floor[one] <= floor[other]
    ]
    beyond = trusted_core.BEYOND
    pairs += [
        (one, other) for one in beyond for other in ("dp_core.confidential", "dp_core.kernel.noise")
    ]
    pairs += [(client, "tasks.ledger.charging") for client in CLIENTS]
    pairs += [("dp_core", "tasks"), ("dp_core", "flows"), ("tasks", "flows")]
    return pairs


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("flows", "tasks", "dp_core", include_external_packages=True)


def kept(contract: dict[str, object], imports: grimp.ImportGraph) -> bool:
    """Return whether a contract of pyproject.toml holds for a graph of imports.

    A check removes the imports that the contract ignores, so it gets a copy.
    """
    options = {key: value for key, value in contract.items() if key not in ("name", "type")}
    made = KINDS[str(contract["type"])](
        name=str(contract["name"]),
        session_options={
            "root_packages": LINTER["root_packages"],
            "include_external_packages": "True",
        },
        contract_options={
            key: str(value) if isinstance(value, bool) else value for key, value in options.items()
        },
    )
    # A check takes the imports that the contract ignores out of its graph.
    return bool(made.check(graph=deepcopy(imports), verbose=False).kept)


def some_module(room: str) -> str:
    """Return a module of a room that is not the room itself, where there is one."""
    inside = sorted(name for name in modules() if name.startswith(f"{room}."))
    return next((name for name in inside if modules()[name].name != "__init__.py"), room)


@pytest.mark.parametrize(("one", "other"), forbidden_pairs())
def test_an_import_between_forbidden_rooms_breaks_a_contract(one, other):
    importer, imported = some_module(one), some_module(other)
    # First the contracts about the rooms of this package, of which one is broken almost always.
    package = one.partition(".")[0]
    contracts = sorted(LINTER["contracts"], key=lambda each: each.get("containers") != [package])
    graph().add_import(importer=importer, imported=imported, line_number=1, line_contents="")
    try:
        assert not all(kept(contract, graph()) for contract in contracts)
    finally:
        graph().remove_import(importer=importer, imported=imported)


def test_the_contracts_hold_for_the_program_as_it_is():
    assert [
        contract["name"] for contract in LINTER["contracts"] if not kept(contract, graph())
    ] == []


def test_every_forbidden_pair_is_tried():
    assert len(forbidden_pairs()) > 60


def test_no_module_imports_itself_through_others():
    """Tarjan's algorithm: every strongly connected part of the imports is one module."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in imports(module):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            part = [stack.pop()]
            while part[-1] != module:
                part.append(stack.pop())
            if len(part) > 1:
                circles.append(part)

    for module in modules():
        if module not in index:
            visit(module)
    assert circles == []


def test_a_room_has_few_files_and_says_what_lives_there():
    files = Counter(
        name.rpartition(".")[0] for name, path in modules().items() if path.name != "__init__.py"
    )
    crowded = {
        room: number
        for room, number in files.items()
        if number > MOST_FILES and room not in FAMILIES
    }
    assert crowded == {}
    assert files["dp_core"] == 1
    assert files["flows"] == 6
    for name, path in modules().items():
        if path.name == "__init__.py":
            assert path.read_text(encoding="utf-8").startswith('"""'), f"{name} does not say."


def test_the_page_of_the_trusted_core_is_what_the_imports_say():
    made = trusted_core.page()
    assert trusted_core.PAGE.read_text(encoding="utf-8") == made, "Run: make trusted-page"


def test_every_room_and_module_that_the_trusted_core_names_is_there():
    named = (
        *trusted_core.CONFIDENTIAL,
        *trusted_core.HANDLES,
        *trusted_core.AUDIT,
        *trusted_core.PUBLIC_DATA,
        *trusted_core.INSPECTION,
        *trusted_core.BEYOND,
        *trusted_core.DECIDES,
        *trusted_core.RECORDS,
        *trusted_core.GUARDS,
        *trusted_core.BELOW,
        *trusted_core.CORE,
    )
    assert [name for name in named if name not in modules()] == []


def test_a_room_whose_own_tests_are_left_out_asks_for_test_all_when_it_changes():
    rooms = [ROOT / test.removeprefix("tests/") for test in trusted_core.TESTS]
    files = {path for room in rooms for path in room.rglob("*.py")}
    assert len(files) > 100
    files |= {path for test in trusted_core.TESTS for path in (ROOT / test).rglob("*.py")}
    files |= {ROOT / test for test in trusted_core.TESTS if test.endswith(".py")}
    assert {path for path in files if not path.is_file()} == set()
    assert files - trusted_core.audited_files() == set()


def importing(rooms: tuple[str, ...]) -> set[str]:
    """Return the modules outside some rooms that import one of them."""
    return {
        name
        for name in modules()
        if not trusted_core.within(name, rooms)
        if any(trusted_core.within(each, rooms) for each in imports(name))
    }


def test_no_release_can_reach_the_audit():
    """It replaces the samplers, and the trusted core leaves it out."""
    assert importing(trusted_core.AUDIT) == {
        "flows.answers.audit_answers",
        "flows.cli.commands.evaluation_commands",
    }


def test_only_the_public_api_reaches_releases_of_public_frames():
    """They count in memory, without a ledger, and no module imports the public API."""
    assert importing(trusted_core.PUBLIC_DATA) == {"dp_core"}
    assert [name for name in modules() if "dp_core" in imports(name)] == []


def test_only_the_process_with_the_data_can_judge_them_or_pay_for_a_result():
    assert importing(("tasks.ledger.charging",)) == {
        "tasks.confidential.confidential_run",
        "tasks.confidential.host",
    }


def test_no_release_can_reach_the_inspection_of_a_file():
    """It shows values and counts, and the trusted core leaves it out."""
    for each in ("flows.release", "flows.scheduled", "flows.nightly", "flows.sweep"):
        reached = {
            name
            for name in graph().find_upstream_modules(each)
            if trusted_core.within(name, trusted_core.INSPECTION)
        }
        assert reached == set(), each
    writing = {
        name
        for name in modules()
        if trusted_core.within(name, trusted_core.INSPECTION)
        if any(
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") in ("write_text", "write_bytes", "mkdir", "unlink")
            for node in ast.walk(ast.parse(modules()[name].read_text(encoding="utf-8")))
        )
    }
    assert writing == set()


@pytest.mark.parametrize(
    "module",
    [
        "dp_core.plan.procedure",  # is given the counter
        "dp_core.methods.selection.selector",  # `fixed_beforehand` believes its classes
        "dp_core.methods.registry",
        "tasks.support.run_folder",  # says which noisy results are there
        "flows.releases.start_check",  # says whether each has a charge, before a budget is returned
        "flows.cli.actions.publication_decisions",  # states whether a result may have been seen
        "tasks.stages.gates.ledger_tasks",
        "tasks.stages.gates.publication_approval",
        "tasks.run.stage_failures",  # replaces errors that hold data
        "tasks.confidential.messages",  # the list of what may leave the process
        "flows.engine.engine_failures",
        "dp_core.errors",
    ],
)
def test_the_trusted_core_has_what_decides_or_guards_outside_its_rooms(module):
    assert module in trusted_core.trusted()


def beyond() -> list[str]:
    return [name for name in modules() if trusted_core.within(name, trusted_core.BEYOND)]


def defined_in(module: str) -> set[str]:
    """Return the names that a module binds itself, not by importing them."""
    found = set()
    for node in ast.parse(modules()[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def ways_around(tree: ast.AST) -> list[str]:
    """Return what a module does to reach the data or the noise without an import that is seen."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=attr, value=value) if attr.startswith("_"):
                own = isinstance(value, ast.Name) and value.id in ("self", "cls", "mcs")
                own |= isinstance(value, ast.Call) and getattr(value.func, "id", "") == "super"
                if not own and not attr.endswith("__"):
                    found.append(f"the private {attr} of another object")
            case ast.Attribute(value=ast.Name(id=package), attr=room) if (
                f"{package}.{room}" in modules()
            ):
                found.append(f"{package}.{room} as an attribute")
            case ast.ImportFrom(module=str(module), names=names) if trusted_core.within(
                module, ("dp_core.kernel", "dp_core.client")
            ):
                # A package offers what its files define; a file offers only its own.
                if modules()[module].name != "__init__.py":
                    found += [
                        f"{alias.name} by way of {module}"
                        for alias in names
                        if alias.name not in defined_in(module)
                    ]
            case ast.Name(id="__import__" | "eval" | "exec" as name):
                found.append(name)
            case (
                ast.Name(id="import_module")
                | ast.Attribute(attr="import_module")
                | ast.Attribute(value=ast.Name(id="sys"), attr="modules")
            ):
                found.append("a module by its name")
    return found


@pytest.mark.parametrize(
    "line",
    [
        "curator._counter.count([()])",
        "importlib.import_module('dp_core.confidential.source')",
        "sys.modules['dp_core.confidential.source']",
        "dp_core.confidential.source",
        "from dp_core.client.curator import additive_noise",
        "__import__('dp_core.confidential.source')",
    ],
)
def test_a_way_around_the_import_contracts_is_found(line):
    assert ways_around(ast.parse(line))


def test_nothing_beyond_the_wall_goes_around_the_import_contracts():
    around = {
        name: found
        for name in beyond()
        # It finds methods by name, in the folder of their family only.
        if name != "dp_core.methods.registry"
        if (found := ways_around(ast.parse(modules()[name].read_text(encoding="utf-8"))))
    }
    assert around == {}
