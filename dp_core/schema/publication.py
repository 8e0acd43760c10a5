"""Who publishes a release and under which terms: the schema's `publication`, all of it optional.

It affects neither the data nor the guarantee. The codebook, the citation, the registry entry and
the report show it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Literal, get_args

from dp_core.text.documents.node import Node

PublisherType = Literal["government", "industry", "nonprofit"]
Sector = Literal["technology", "healthcare", "education", "government", "energy", "finance"]

LICENCES = (
    "CC0-1.0",
    "CC-BY-4.0",
    "CC-BY-SA-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-NC-ND-4.0",
    "ODbL-1.0",
    "ODC-By-1.0",
    "PDDL-1.0",
    "OGL-UK-3.0",
    "OGL-Canada-2.0",
    "etalab-2.0",
)
"""Licences of data by their identifiers in the SPDX list; any other is stated by its URL."""

_EXAMPLE = "{publisher: Office of Statistics, licence: CC-BY-4.0, contact: data@example.org}"
_URL = re.compile(r"https?://[^\s<>\"]+\.[^\s<>\"]+")
_MAIL = re.compile(r"[^\s@<>\"]+@[^\s@<>\"]+\.[^\s@<>\"]+")
_DOI = re.compile(r"10\.\d{4,9}/[^\s<>\"]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Publisher and terms; an empty text is not stated.

    Attributes:
        publisher: Name of the publisher.
        publisher_type: Kind of organisation, as the registry calls it.
        contact: Email address for questions.
        licence: Licence of the data, one of `LICENCES`.
        licence_url: URL of the terms.
        url: URL of the release or its description.
        doi: DOI of the release, without its resolver.
        region: Region that the data describe.
        sector: Sector, as the registry calls it.
        intended_use: Intended use of the release.
        justification: Reasons for this privacy loss and these methods.
    """

    publisher: str = ""
    publisher_type: PublisherType | Literal[""] = ""
    contact: str = ""
    licence: str = ""
    licence_url: str = ""
    url: str = ""
    doi: str = ""
    region: str = ""
    sector: Sector | Literal[""] = ""
    intended_use: str = ""
    justification: str = ""

    def document(self) -> dict[str, str]:
        """Return what is stated, as plain values."""
        stated = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in stated.items() if value}


UNSTATED = Publication()
"""Publication of a schema without that section."""

_KEYS = tuple(each.name for each in fields(Publication))
_CHOICES = {
    "publisher_type": get_args(PublisherType),
    "licence": LICENCES,
    "sector": get_args(Sector),
}
_FORMS = {
    "contact": (_MAIL, "an email address, such as data@example.org"),
    "licence_url": (_URL, "a URL that begins with https://"),
    "url": (_URL, "a URL that begins with https://"),
    "doi": (_DOI, "a DOI without its resolver, such as 10.5281/zenodo.1234"),
}


def read_publication(node: Node) -> Publication:
    """Return the section `publication` of a schema.

    Raises:
        BadInput: if a key is unknown or a value does not have the required form.
    """
    found: dict[str, str] = {}
    for name, value in node.fields(_KEYS, example=_EXAMPLE).items():
        if name in _CHOICES:
            found[name] = value.choice(_CHOICES[name])
            continue
        # Headings, citations and lists need the text on one line.
        text = " ".join(value.name().split())
        pattern, form = _FORMS.get(name, (None, ""))
        if pattern is not None and not pattern.fullmatch(text):
            raise value.error(f"must be {form}.")
        found[name] = text
    return Publication(**found)  # type: ignore[arg-type]
