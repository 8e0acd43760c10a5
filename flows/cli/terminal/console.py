"""The console on which every command prints its answer."""

from __future__ import annotations

from rich.console import Console


class OutputConsole(Console):
    """A console whose caller hears that the reader of the output has closed the pipe."""

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled; rich would end the process with exit code 1."""
        raise


def open_console() -> Console:
    """Return the console: as wide as the terminal, or 200 columns without a terminal."""
    console = OutputConsole(highlight=False)
    return console if console.is_terminal else OutputConsole(highlight=False, width=200)
