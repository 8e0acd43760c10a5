"""What is compiled at installation is all that a release would wait for."""

import json
import subprocess
import sys
from pathlib import Path

LOOK = """
import importlib, json
from pathlib import Path
from flows.engine.compiled_loops import compile_all
from numba.core.dispatcher import Dispatcher

sources = [path for path in Path("dp_core").rglob("*.py") if "njit(" in path.read_text()]
names = [".".join(path.with_suffix("").parts) for path in sources]
modules = [importlib.import_module(name) for name in names]
compile_all()
loops = {
    loop.py_func: loop
    for module in modules
    for loop in vars(module).values()
    if isinstance(loop, Dispatcher)
}
done = [loop for loop in loops.values() if loop.overloads]
for loop in done:  # and what they call, which is compiled with them
    function = loop.py_func
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    done += [each for each in called if isinstance(each, Dispatcher) and each not in done]
found = {f"{loop.py_func.__module__}.{loop.py_func.__name__}" for loop in loops.values()}
ready = {f"{loop.py_func.__module__}.{loop.py_func.__name__}" for loop in done}
print(json.dumps([len(found), sorted(found - ready)]))
"""


def test_every_loop_is_called():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    number, missing = json.loads(done.stdout)
    assert number > 25
    assert missing == []
