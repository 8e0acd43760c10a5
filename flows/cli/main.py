"""The `dp-release` command: it finds the command files, and says how every command ends."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import pkgutil
import sys
from importlib import import_module

import click

from dp_core.errors import BadInput, Fault, ReleaseError, SchemaViolation, similar
from flows.cli import arguments, commands, completion  # noqa: F401 (its command)
from flows.cli.command_parts import cli
from flows.cli.missing_packages import what_to_install
from tasks.support.process_environment import correct_environment, restart_in_utf8
from tasks.support.run_folder import kept_message, with_row

for _each in pkgutil.walk_packages(commands.__path__, f"{commands.__name__}."):
    import_module(_each.name)  # a file adds its commands to `cli`

INTERRUPTED = 130
SEARCH_EVERY = 20_000
"""Allocations between two garbage collections. Python's default of 700 takes a tenth of the time of
a short command, which imports a million objects that all stay."""


def main() -> None:
    """Run the command line; print every failure as a sentence and end with its exit code."""
    restart_in_utf8()
    correct_environment()
    _forbid_core_files()
    gc.set_threshold(SEARCH_EVERY)
    # Python searches all objects for garbage twice before it ends: half a second after a release.
    atexit.register(gc.freeze)
    context: dict[str, object] = {}
    row: str | None = None
    own: str | None = None
    faults: tuple[Fault, ...] = ()
    try:
        cli.main(prog_name="dp-release", standalone_mode=False, obj=context)
        code, message = 0, ""
    except ReleaseError as error:
        code, message, row = error.exit_code, error.message, error.row
        own = _message_for_terminal(error)
        faults = error.faults if isinstance(error, BadInput) else ()
    except click.exceptions.Exit as error:
        code, message = error.exit_code, ""
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        code, message = 2, ""
    except click.ClickException as error:
        code, message = 2, _usage_fault(error)
    except (KeyboardInterrupt, click.Abort) as error:
        code, row = INTERRUPTED, "interrupted"
        # click replaces Ctrl-C by its own exception; the command's is the cause.
        message = getattr(error.__cause__, "message", "") or (
            "Interrupted; nothing is lost. `dp-release status` shows the stages done, and"
            " `dp-release resume RELEASE` continues."
        )
    except ModuleNotFoundError as error:
        if (sentence := what_to_install(error)) is None:
            raise
        code, message = 2, sentence
    if message:
        if "--json" in sys.argv[1:]:
            named: dict[str, object] = {"runbook": row} if row else {}
            if faults:
                from dp_core.text.documents.faults import fault_json

                named["faults"] = list(map(fault_json, faults))
            answer = {"error": message, "exit_code": code, **named}
            click.echo(json.dumps(answer, ensure_ascii=False))
        else:
            click.echo(f"dp-release: {own or with_row(message, row)}", err=True)
    sys.exit(code)


def _message_for_terminal(error: ReleaseError) -> str | None:
    """Return the own message of an error of the confidential process, for a person at a terminal.

    None if there is none. What the data break is printed by the command, before its fixed sentence.

    Privacy:
        That person runs the release and may see the file. Output that is kept, such as a service's
        log, gets the fixed sentence only.
    """
    refused = isinstance(error, SchemaViolation)
    if error.message_file is None or refused or not arguments.on_terminal(sys.stderr):
        return None
    return kept_message(error.message_file)


def _usage_fault(error: click.ClickException) -> str:
    """Return the fault of a command line, and how to get help."""
    context = getattr(error, "ctx", None)
    text, hint = error.format_message().rstrip("."), ""
    if isinstance(error, click.NoSuchOption) and context is not None:
        text = f"No such option {error.option_name}"
        known = {name.strip("-") for each in context.command.params for name in each.opts}
        # Without the dashes, which all options share.
        hint = similar(error.option_name.strip("-"), known).replace("mean '", "mean '--")
    if text.endswith("?"):
        return text
    help_page = "" if hint or context is None else f"; see `{context.command_path} --help`"
    return f"{text}{help_page}.{hint}"


def _forbid_core_files() -> None:
    """Switch core files off, for every command and the processes that it starts.

    Privacy:
        Several commands read the confidential file: a crash of a library must not write this
        process's memory into the working folder.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


if __name__ == "__main__":
    main()
