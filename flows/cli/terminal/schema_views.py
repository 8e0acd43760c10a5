"""The terminal view of a check of a file. Confidential: it shows values and counts."""

from __future__ import annotations

from rich.console import Console

from dp_core.inspection.findings import FileCheck
from dp_core.text.pages.page_text import print_page


def checked(console: Console, check: FileCheck) -> None:
    """Print the verdict and every finding with its examples and its fix."""
    print_page(console, check.page())
