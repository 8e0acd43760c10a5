"""`registry.yaml`: an entry for the public registry of differential privacy deployments.

It has the form of OpenDP's registry (repository opendp/deployments-registry-data, file
schemas/deployments-schema.yaml, autumn 2026) at tier 3, the most complete. Everything follows from
the statement, so `verify` recomputes it. What only the publisher knows is marked as not stated
unless the schema states it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from dp_core.accounts.requested import words_of
from dp_core.bundle.statement.citation import publication, suggested_citation, yaml_text
from dp_core.bundle.statement.release_json import origin_of
from dp_core.bundle.statement.sections import MEASUREMENTS, paid_currency, stated_unit
from dp_core.inference.combining_rules import Origin

REGISTRY = "registry.yaml"
"""Name of the registry entry in the bundle."""

NOT_STATED = "Not stated."
"""Placeholder for what the publisher must fill in before submitting the entry."""

_TYPES = {"government": "Government", "industry": "Industry", "nonprofit": "Nonprofit"}
_CURRENCIES = {
    "pure": "epsilon, added up exactly",
    "zcdp": "rho of zero-concentrated differential privacy, added up exactly",
    "gaussian": "half of the squared parameter of the Gaussian curve, added up exactly",
    "mixed": (
        "half of the squared parameter of the Gaussian curve, to which private choices are added"
    ),
}


def registry_entry(document: Mapping[str, Any], origin: Origin | None = None) -> dict[str, Any]:
    """Return the entry of a release.

    Args:
        document: The statement; its `files` are not needed.
        origin: Origin of its records; by default the one that follows from the plan.
    """
    origin = origin or origin_of(document["method"]["plan"])
    release, guarantee = document["release"], document["guarantee"]
    stated = publication(document)
    publisher = stated.get("publisher", NOT_STATED)
    return {
        "url_slug": _slug(release["title"], stated.get("publisher", ""), release["name"]),
        "deployment": {
            "basic": _basic(document, stated, publisher),
            "dp_variant": {
                "variant_name": "Approximate DP" if _delta(guarantee) else "Pure DP",
                "data_domain": _domain(document),
                "unprotected_quantities": _what_is_not_covered(document),
            },
            "privacy_loss": _privacy_loss(document),
            "deployment_model": _model(document),
            "implementation": _implementation(document, stated, origin),
            "administrative": {
                "evidence_sources": {
                    "release": {
                        "evidence_source_type": "Formal publication by the deploying organization",
                        "misc": {
                            "title": release["title"],
                            "author": publisher,
                            "year": int(release["created"][:4]),
                            "note": suggested_citation(document),
                            **{name: stated[name] for name in ("url", "doi") if name in stated},
                        },
                    }
                },
                "status": "Draft",
                "registry_authors": [publisher],
                "tier": 3,
            },
        },
    }


def registry_text(document: Mapping[str, Any], origin: Origin | None = None) -> bytes:
    """Return the content of the file; its heading lists what must be filled in."""
    stated = publication(document)
    left = [
        f"{name} ({place})"
        for name, place in (
            ("publisher", "data_curator_name, registry_authors"),
            ("publisher_type", "data_curator_type; Government is assumed"),
            ("intended_use", "intended_use"),
            ("region", "data_product_region"),
            ("justification", "justification"),
        )
        if name not in stated
    ]
    heading = (
        "# An entry for the public registry of differential privacy deployments\n"
        "# (opendp/deployments-registry-data), made from release.json.\n"
    )
    if left:
        heading += (
            "# Not stated under `publication` in the schema; fill in before you submit it:\n"
            + "".join(f"#   {text}\n" for text in left)
        )
    return yaml_text(registry_entry(document, origin), heading)


def _basic(
    document: Mapping[str, Any], stated: Mapping[str, str], publisher: str
) -> dict[str, Any]:
    release, sets = document["release"], document["sets"]
    count = sets["m"]
    product = "Noisy tables of a confidential file."
    if count:
        rows = round(sum(sets["rows"]) / count)
        size = f"{rows:,} records"
        if persons := sets.get("persons"):
            size = f"{rows:,} households with {round(sum(persons) / count):,} persons"
        product = (
            f"{count} synthetic data {'set' if count == 1 else 'sets'} of about {size},"
            " with the noisy measurements that they were made from."
        )
    about = document["method"]["schema"].get("description", "")
    basic: dict[str, Any] = {
        "name": f"{release['title']} ({release['name']})",
        "data_curators": [
            {
                "data_curator_name": publisher,
                "data_curator_type": _TYPES[stated.get("publisher_type", "government")],
            }
        ],
        "description": " ".join(part for part in (about, product) if part),
        "intended_use": stated.get("intended_use", NOT_STATED),
        "data_product_type": "Synthetic data" if count else "Summary statistics",
        "data_product_region": stated.get("region", NOT_STATED),
        "publication_date": release["created"][:10],
    }
    if "sector" in stated:
        basic["data_product_sector"] = stated["sector"].capitalize()
    return basic


def _delta(guarantee: Mapping[str, Any]) -> Fraction:
    return Fraction(guarantee["tightest"]["delta"]["exact"])


def _domain(document: Mapping[str, Any]) -> str:
    schema = document["method"]["schema"]
    if "tables" in schema:
        named = {
            table: ", ".join(name for column in each["columns"] for name in column)
            for table, each in schema["tables"].items()
        }
        tables = " and ".join(f"the table {table} with {names}" for table, names in named.items())
        most = document["guarantee"]["max_members"]
        return (
            f"Files of any number of households with at most {most} members each, in two linked"
            f" tables whose values the public schema lists: {tables}."
        )
    names = [name for column in schema["columns"] for name in column]
    return (
        f"Files of any number of {document['guarantee']['unit']}s with these columns, whose values"
        f" the public schema lists: {', '.join(names)}."
    )


def _what_is_not_covered(document: Mapping[str, Any]) -> str:
    guarantee = document["guarantee"]
    first = (
        "No statistic of the file is published without noise."
        if guarantee["neighbours"] == "add-remove"
        else f"The number of {guarantee['unit']}s is public; no other statistic of the file is"
        " published without noise."
    )
    return "\n".join([first, *(f"- {sentence}" for sentence in guarantee["not_covered"])]) + "\n"


def _privacy_loss(document: Mapping[str, Any]) -> dict[str, Any]:
    guarantee, sets = document["guarantee"], document["sets"]
    best, enforced, unit = guarantee["tightest"], guarantee["enforced"], guarantee["unit"]
    parameters: dict[str, Any] = {"epsilon": _up(best["epsilon"]["exact"])}
    if _delta(guarantee):
        # A delta may be too small for a float; the registry accepts a text.
        parameters["delta"] = _up(best["delta"]["exact"]) or best["delta"]["exact"]
    currency = paid_currency(document)
    if currency["kind"] == "zcdp" and currency["own_delta"]["exact"] == "0":
        parameters["rho"] = _up(currency["limit"]["exact"])
    rows = guarantee.get("max_rows", 1)
    protected = words_of(stated_unit(document))
    change = (
        f"{protected} added or removed"
        if guarantee["neighbours"] == "add-remove"
        else f"{protected} replaced by another"
    )
    most = f" A {unit} has at most {rows} rows; more are not counted." if rows > 1 else ""
    shares = f" {guarantee['unit_in_words']}" if "unit_in_words" in guarantee else ""
    loss: dict[str, Any] = {
        "privacy_unit": f"{unit.capitalize()}-level",
        "privacy_unit_details": f"Adjacent files differ by {change}.{most}{shares}",
        "privacy_parameters": parameters,
        "privacy_parameters_details": "\n".join(
            [
                guarantee["in_words"],
                *([document[MEASUREMENTS]["in_words"]] if MEASUREMENTS in document else []),
                f"Why it holds: {best['theorem']}.",
                f"The ledger enforced epsilon {enforced['epsilon']['exact']}, delta"
                f" {enforced['delta']['exact']}.",
                *guarantee["over_all_releases"],
            ]
        )
        + "\n",
    }
    if unit in ("row", "household"):
        loss["number_of_privacy_units"] = round(sets["records"]["value"])
    return loss


def _model(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "trust_assumptions": (
            "The publisher holds the file and is trusted with it: to draw the noise as stated, to"
            " publish no draw that was chosen among several, and to keep what was compared with the"
            " file inside. Readers of the release are trusted with nothing and may know anything.\n"
        ),
        "release_type": "One release",
        "release_type_details": " ".join(
            document["guarantee"]["over_all_releases"]
            or ["No total over further releases of the same file is stated."]
        ),
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _implementation(
    document: Mapping[str, Any], stated: Mapping[str, str], origin: Origin
) -> dict[str, Any]:
    accounting, software = document["accounting"], document["software"]
    used = "\n".join(
        f"- {name}: {each['events']} {'event' if each['events'] == 1 else 'events'}; its cost is"
        f" {each['cost']} ({each['theorem']})."
        for name, each in accounting["mechanisms"].items()
    )
    reads = ", ".join(f"{name} {version}" for name, version in sorted(software.items()))
    return {
        "preprocessing_and_hyperparameter_tuning": (
            "Levels, bounds and bins are stated in a public schema, and values that break it are"
            " treated by its rules. Methods, shares and seeds were fixed in a plan, by hash, before"
            " the file was read; nothing was tuned on the file outside the privacy loss.\n"
        ),
        "mechanisms": (
            f"{used}\n- Samplers: {accounting['noise']['samplers']}\n- Randomness:"
            f" {accounting['noise']['randomness']}\n- Software: {reads}.\n"
        ),
        "composition": (
            f"Paid in {_CURRENCIES[paid_currency(document)['kind']]}"
            f" ({accounting['composition']['theorem']}). A ledger reserved the total"
            " before the file was read and refused whatever would have passed it.\n"
        ),
        "post_processing": (
            f"Preset {document['method']['name']}: {_after(origin)} Combinations that the schema"
            " calls impossible occur in no synthetic record.\n"
        ),
        "justification": stated.get("justification", NOT_STATED),
        "additional_information": (
            "The bundle holds every charge as a receipt; its release.json tells how to recompute"
            f" the guarantee from them. Last receipt: {document['ledger']['head']}.\n"
        ),
    }


def _after(origin: Origin) -> str:
    if origin in ("drawn", "chosen"):
        return "the synthetic records are themselves results of the mechanisms above."
    return (
        "a model was fitted to the noisy measurements, and the records were drawn from it; neither"
        " looked at the file."
    )


def _up(exact: str) -> float:
    """Return an exact number as a decimal, rounded up so that the bound holds."""
    value = Fraction(exact)
    context = Context(prec=6, rounding=ROUND_CEILING)
    return float(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def _slug(*texts: str) -> str:
    """Return texts as a URL slug.

    >>> _slug("A survey & more", "", "2026/Q1")
    'a-survey-more-2026-q1'
    """
    words = re.findall("[a-z0-9]+", " ".join(texts).lower())
    return "-".join(words)[:120].strip("-") or "release"
