"""The six Prefect flows, one file each: release, scheduled, answer, compare, nightly and sweep.

In Python, `from flows import run, resume` make a real release, as the commands do; both are
imported when they are first used.

The folders beside them: `cli` (commands), `notebook` (`run` and `resume`), `answers` (the commands'
results), `desk` (single questions about a file), `releases` (what the flows share),
`comparison` (of methods), `monitoring` (log, events, metrics, artifacts) and `engine` (Prefect's
server and settings). `flows` imports `tasks` and `dp_core`; nothing imports `flows`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.notebook.running import MadeRelease as MadeRelease
    from flows.notebook.running import resume as resume
    from flows.notebook.running import run as run

__all__ = ["MadeRelease", "resume", "run"]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        """Return a name for Python; import its module first (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module 'flows' has no attribute {name!r}")
        from flows.notebook import running

        globals()[name] = found = getattr(running, name)
        return found

    def __dir__() -> list[str]:
        """Return the names for Python, besides what is imported."""
        return sorted({*globals(), *__all__})
