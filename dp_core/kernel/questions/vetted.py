"""The closed list of statistics with proven sensitivities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from dp_core.kernel import extensions
from dp_core.kernel.cost.sensitivity import Bounds, in_shares, of_unit
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.errors import BadInput
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions import STATISTICS, descriptions
from dp_core.kernel.questions.linear_questions import MiddleProducts
from dp_core.kernel.questions.products import Products
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.statistic import Statistic, Sum, check_codes

_CORE: Mapping[str, type[Statistic]] = {
    name: getattr(import_module(f"dp_core.kernel.questions.{module}"), kind)
    for name, (module, kind) in STATISTICS.items()
}
SUMS = extensions.SUMS | {name for name, kind in _CORE.items() if issubclass(kind, Sum)}
"""Names of the vetted sums over records."""

VETTED = frozenset({*_CORE, *extensions.EXTENSIONS} - extensions.DRAWN)
"""Names of all statistics whose sensitivity is proven in the kernel."""


def kind_of(name: object, about: object = None) -> type[Statistic]:
    """Return the class of a statistic; the file of an extension is loaded now.

    Args:
        name: Its name.
        about: Its field `about`; None (the default) if it has none.

    Raises:
        ValueError: if no statistic of that name is vetted.
    """
    # privacy: a text of another type could claim to equal two names.
    if type(name) is not str or name not in VETTED:
        raise ValueError(f"No statistic of the name {name!r:.40} has a proven sensitivity.")
    # Products about the middle are linear, and have a proof of their own.
    if name == Products.NAME and about == "middle":
        return MiddleProducts
    found: type[Statistic] = _CORE[name] if name in _CORE else extensions.extension(name)
    return found


Asked = TypeVar("Asked", bound=Statistic)


def rebuilt(kind: type[Asked], question: Statistic) -> Asked:
    """Return the question on the list that has the name and the fields of an object.

    Args:
        kind: What it must be.
        question: The object; whatever else it is, only the plain values of its fields are used.

    Raises:
        ValueError: or another error of `GARBAGE`, if these are not the fields of a question of this
            kind on the list.
    """
    # privacy: a sensitivity is believed only if it is proven. The object of a method could claim
    # any, count something else, or change after it was charged.
    own = kind_of(question.NAME, getattr(question, "about", None))
    found = descriptions.rebuilt(own, question).of_size()
    if not isinstance(found, kind):
        raise ValueError(f"The statistic {found.NAME!r} is no {kind.__name__}.")
    return found


def bounds(statistic: Statistic, relation: Relation) -> Bounds:
    """Return the largest change of an entry, and the L1 and squared L2 sensitivity of all.

    With shares they are those for one household, of values in households;
    `dp_core.kernel.cost.sensitivity.in_shares` converts them to those of values in shares.

    Raises:
        BadInput: if its sensitivity is proven for a public number of rows only, and that is not
            public.
    """
    return of_unit(relation, statistic.of_row)


def asked_in_shares(statistic: Asked, relation: Relation) -> Asked:
    """Return the question as it is put to the file: in shares, if a unit has several.

    Raises:
        BadInput: if the answer in shares would not answer the question about units, or does not fit
            in 64 bits.
    """
    _check_in_shares(type(statistic), relation)
    return statistic if relation.shares == 1 else statistic.in_shares(relation.shares)


def _check_in_shares(kind: type[Statistic], relation: Relation) -> None:
    if relation.shares > 1 and not kind.IN_SHARES:
        raise BadInput(
            f"The statistic {kind.NAME!r} cannot be asked of linked tables: {kind.NOT_IN_SHARES}"
        )


def required(
    document: Mapping[str, Any], relation: Relation, domain: Domain | None = None
) -> Bounds:
    """Return the bounds of a statistic from its description alone, to verify a receipt.

    Args:
        document: The statistic as a receipt describes it; it is trusted only to name what was
            computed.
        relation: The release's neighbouring relation.
        domain: Columns and numbers of codes that the statistic must be about; None if unknown.

    Returns:
        The largest change of an entry, and the L1 and squared L2 sensitivity of all entries, of
        the values that were drawn: in shares, if a unit has several.

    Raises:
        ValueError: or another error of `GARBAGE`, if it describes no statistic on the list, or one
            of other columns or codes.
        BadInput: see `bounds` and `asked_in_shares`.
    """
    kind = kind_of(document["name"], document.get("about"))
    _check_in_shares(kind, relation)
    # Receipts of the others describe only what decides their sensitivity.
    if domain is not None and issubclass(kind, (Sum, QueryCounts)):
        check_codes(kind.read(document), domain)
    return in_shares(relation, of_unit(relation, partial(kind.required, document)))


def sum_from_json(document: Mapping[str, Any]) -> Sum:
    """Return the sum that a receipt or a file of noisy tables describes.

    Args:
        document: What `to_json` returned, or what somebody claims that it returned.

    Raises:
        ValueError: or another error of `GARBAGE`, if it describes no sum on the list.
    """
    found = kind_of(document["name"], document.get("about")).read(document)
    if not isinstance(found, Sum):
        raise ValueError(f"The statistic {found.NAME!r} is no sum over records.")
    return found
