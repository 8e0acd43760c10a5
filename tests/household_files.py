"""Small files of households for the tests of the wall: all of them, and their pair rows.

By default, households may be without members.
"""

from __future__ import annotations

import itertools

import numpy as np

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.kernel import Kernel
from dp_core.schema.linked.linked_tables import LinkedTables

NO_MEMBER = NO_OTHER = 2
"""Code in the columns of a member or another member if there is none; persons have 0 and 1."""


def linked(most=3, least=0):
    """Return tables of a household column `h` and person columns `p` and `q`, of two codes each."""
    return LinkedTables(
        households="households",
        persons="persons",
        key="id",
        link="household",
        person_key="number",
        min_members=least,
        max_members=most,
        household_columns=("h",),
        person_columns=("p", "q"),
    )


def domain(most=3, least=0):
    """Return the wide domain of `linked`."""
    own = 2 if least else 3
    columns = ("h", "members", "p", "q", "other.p", "other.q")
    return Domain(columns, (2, most + 1 - least, own, own, 3, 3))


KINDS = {
    "households": ("h",),
    "sizes": ("members", "h"),
    "persons": ("p", "q"),
    "persons and households": ("p", "h"),
    "persons and sizes": ("p", "members"),
    "members": ("p", "other.p"),
    "members and households": ("h", "p", "other.q"),
    "others": ("other.p", "other.q"),
    "all": ("h", "members", "p", "q", "other.p", "other.q"),
    "number": (),
}
"""One clique of each kind of table."""


def households(most=3, least=0):
    """Return every household: its code of `h`, and the codes of its members."""
    persons = list(itertools.product(range(2), repeat=2))
    return [
        (h, members)
        for h in range(2)
        for size in range(least, most + 1)
        for members in itertools.combinations_with_replacement(persons, size)
    ]


def pair_rows(file, most=3, least=0):
    """Return the pair rows of a file of households."""
    rows = []
    for h, members in file:
        code = len(members) - least
        if len(members) < 2:
            one = members[0] if members else (NO_MEMBER, NO_MEMBER)
            rows.append((h, code, *one, NO_OTHER, NO_OTHER))
        rows += [(h, code, *one, *other) for one, other in itertools.permutations(members, 2)]
    codes = np.array(rows, dtype=np.uint16).reshape(-1, 6)
    return Dataset(domain(most, least), np.ascontiguousarray(codes.T))


def counter_of(file, most=3, least=0):
    """Return the counter of a file, in shares."""
    return HouseholdCounter(MemoryCounter(pair_rows(file, most, least)), linked(most, least))


def curator_of(file, currency, neighbours="add-remove", most=3):
    """Return the curator of a file, and its session."""
    session = MemorySession(currency, neighbours, shares=linked(most).shares)
    return Curator(Kernel(domain(most), counter_of(file, most), session)), session
