"""Range checks of the numeric options of methods, and the mark of fields that are no options."""

from __future__ import annotations

from collections.abc import Mapping

NO_OPTION: Mapping[str, object] = {"option": False}
"""Metadata of a method's field that its stage does not state, because another key of the spec does.
"""


def check_ranges(options: object, **ranges: tuple[float, float | None]) -> None:
    """Check that numeric options are within their ranges.

    Args:
        options: Object, such as a method, whose attributes are checked.
        ranges: Smallest and largest allowed value by option name; None for no upper limit.

    Raises:
        ValueError: if a value is out of range; the message names the option, its range and its
            value.

    >>> from types import SimpleNamespace
    >>> check_ranges(SimpleNamespace(step=2.0), step=(0, 1))
    Traceback (most recent call last):
    ValueError: step must be from 0 to 1, not 2.0.
    """
    for name, (least, most) in ranges.items():
        value = getattr(options, name)
        # Written so that NaN is refused.
        if not (value >= least and (most is None or value <= most)):
            said = f"at least {least:g}" if most is None else f"from {least:g} to {most:g}"
            raise ValueError(f"{name} must be {said}, not {value}.")
