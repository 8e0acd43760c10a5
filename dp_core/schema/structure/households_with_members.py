"""The part of a domain of pair rows that households with members use. Public.

Only households with members have members to draw, and rules about members to obey. For them, a
domain with empty households differs from a domain without in one code of `members` and in one code
of each person column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import MEMBERS


def codes_with_members(domain: Domain) -> Mapping[str, range]:
    """Return the codes that households with members have, for each column that has other codes.

    Args:
        domain: Domain of pair rows; for the domain of a single table the result is empty.
    """
    linked = domain.linked
    if linked is None or linked.min_members:
        return {}
    persons = {name: range(domain.size((name,)) - 1) for name in linked.person_columns}
    return {MEMBERS: range(1, len(linked.sizes)), **persons}


def domain_with_members(domain: Domain) -> Domain:
    """Return the domain of the pair rows of households with members; their codes begin at 0.

    Args:
        domain: Domain of pair rows.
    """
    linked, kept = domain.linked, codes_with_members(domain)
    assert linked is not None
    sizes = zip(domain.columns, domain.sizes, strict=True)
    return replace(
        domain,
        sizes=tuple(len(kept.get(name, range(size))) for name, size in sizes),
        linked=replace(linked, min_members=1),
    )
