"""The mark of fields of methods that are no options."""

from __future__ import annotations

from collections.abc import Mapping

NO_OPTION: Mapping[str, object] = {"option": False}
"""Metadata of a method's field that its stage does not state, because another key of the spec does.
"""
