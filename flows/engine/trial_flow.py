"""Tries the variables that a site sets for Prefect with an empty flow, before a release begins.

Prefect accepts values with which no flow runs, such as a time-out of a microsecond or a serializer
that does not exist. Prefect itself would fail without naming the variable.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Collection, Iterator, Mapping

from dp_core.errors import BadInput


def require_working_variables(names: Collection[str]) -> None:
    """Refuse the variables with which Prefect does not run an empty flow; each is tried by itself.

    Prefect must be imported, and the server in its settings must answer. Nothing is tried if there
    is no variable.

    Args:
        names: The variables for Prefect that the operator set.

    Raises:
        BadInput: if there is one. The message names it, but no value.
    """
    if not names or _runs(without=()):
        return
    wrong = [name for name in names if not _runs(without={*names} - {name})]
    if wrong and _runs(without=names):
        one = len(wrong) == 1
        raise BadInput(
            f"Prefect runs no flow with the value{'' if one else 's'} of {' and of '.join(wrong)};"
            f" correct or unset {'it' if one else 'them'}. This command spent nothing.",
            row="environment",
        )


def _runs(*, without: Collection[str]) -> bool:
    """Return whether an empty flow runs with the environment's settings but some variables."""
    from prefect import flow
    from prefect.context import get_settings_context, use_profile

    def nothing() -> None:
        """Do nothing."""

    known = get_settings_context()
    api = known.settings.api
    secret = None if api.auth_string is None else api.auth_string.get_secret_value()
    changed = {
        **dict.fromkeys(without),
        "PREFECT_CLIENT_MAX_RETRIES": "0",  # otherwise Prefect tries for a minute
        "PREFECT_API_URL": api.url,
        "PREFECT_API_AUTH_STRING": secret,
    }
    with _environment(changed), contextlib.redirect_stderr(io.StringIO()):
        try:
            with use_profile(known.profile, include_current_context=False):
                flow(name="check of settings", persist_result=False)(nothing)()
        except Exception:
            return False
    return True


@contextlib.contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change variables of the environment during a block; None removes one."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
