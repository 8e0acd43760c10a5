"""What prints itself in Python: as text where it is printed, as HTML in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dp_core.text.pages.page import Page


class Printed(ABC):
    """Base of what the library returns to a person; a dataclass among them has `repr=False`."""

    @abstractmethod
    def page(self) -> Page:
        """Return what a person is shown, warnings included."""

    def __str__(self) -> str:
        from dp_core.text.pages.page_text import page_text
        from dp_core.text.pages.python_words import page_in_python

        return page_text(page_in_python(self.page()))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from dp_core.text.pages.page_html import page_html
        from dp_core.text.pages.python_words import page_in_python

        return page_html(page_in_python(self.page()))
