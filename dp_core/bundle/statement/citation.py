"""`CITATION.cff` and the suggested citation of a release.

Citation File Format 1.2.0 (Druskat et al. 2021). Everything follows from the statement, so `verify`
recomputes the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from dp_core.schema.publication import LICENCES

CITATION = "CITATION.cff"
"""Name of the citation file in the bundle."""

UNNAMED = "Publisher not stated"
"""Author of a release whose schema names no publisher; the format requires an author."""


def suggested_citation(document: Mapping[str, Any]) -> str:
    """Return a suggested citation as one line of text.

    Args:
        document: The statement; its `files` are not needed.
    """
    release, stated = document["release"], publication(document)
    parts = [
        f"{stated['publisher']} ({release['created'][:4]})." if "publisher" in stated else "",
        f"{release['title']}: differentially private {_product(document)},",
        f"release {release['name']}, version {release['version']}",
        f"({in_short(document)})." if "publisher" in stated else f"({in_short(document)}),",
        "" if "publisher" in stated else f"{release['created'][:4]}.",
        f"https://doi.org/{stated['doi']}" if "doi" in stated else stated.get("url", ""),
    ]
    return " ".join(part for part in parts if part)


def _product(document: Mapping[str, Any]) -> str:
    return "synthetic data" if document["sets"]["m"] else "noisy tables"


def in_short(document: Mapping[str, Any]) -> str:
    """Return epsilon, delta and unit as a phrase.

    Args:
        document: The statement.
    """
    best, unit = document["guarantee"]["tightest"], document["guarantee"]["unit"]
    epsilon, delta = best["epsilon"]["decimal"], best["delta"]["decimal"]
    text = f"epsilon {epsilon:.6g}"
    return f"{text}, delta {delta:.3g}, per {unit}" if delta else f"{text} per {unit}"


def publication(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what the schema states about publisher and terms."""
    stated: Mapping[str, str] = document["method"]["schema"].get("publication", {})
    return stated


def citation(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `CITATION.cff`.

    Args:
        document: The statement; its `files` are not needed.
    """
    release, stated = document["release"], publication(document)
    publisher = stated.get("publisher", UNNAMED)
    found: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use these data, please cite them as below, with their version.",
        "type": "dataset",
        "title": release["title"],
        "abstract": document["method"]["schema"].get("description")
        or f"Differentially private {_product(document)}: {release['title']}.",
        "authors": [{"name": publisher}],
        "version": str(release["version"]),
        "date-released": release["created"][:10],
        "keywords": [_product(document), "differential privacy", document["method"]["name"]],
        "identifiers": [
            {
                "type": "other",
                "value": f"{document['ledger']['id']}/{release['name']}",
                "description": "Identity of the ledger that paid, and name of the release in it.",
            }
        ],
    }
    if stated.get("contact"):
        found["contact"] = [{"name": publisher, "email": stated["contact"]}]
    if stated.get("licence") in LICENCES:
        found["license"] = stated["licence"]
    if "licence_url" in stated and "license" not in found:
        found["license-url"] = stated["licence_url"]
    if "url" in stated:
        found["url"] = stated["url"]
    if "doi" in stated:
        found["doi"] = stated["doi"]
    return found


def citation_text(document: Mapping[str, Any]) -> bytes:
    """Return the file itself."""
    return yaml_text(citation(document))


def yaml_text(values: Mapping[str, Any], heading: str = "") -> bytes:
    """Return plain values as YAML in their own order, as UTF-8.

    Args:
        values: Plain values.
        heading: Comment lines at the beginning; none by default.
    """
    text = yaml.dump(
        dict(values),
        Dumper=_Readable,
        sort_keys=False,
        allow_unicode=True,
        width=92,
        default_flow_style=False,
    )
    return (heading + text).encode("utf-8")


class _Readable(yaml.SafeDumper):
    """Writes texts with several lines as block scalars."""


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text.strip("\n") else None
    )


_Readable.add_representer(str, _block)
