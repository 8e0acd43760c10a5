"""Small files of households for the tests of the wall: all of them, and their pair rows."""

from __future__ import annotations

import itertools

import numpy as np

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.curator import Curator
from dp_core.wall.household_counter import HouseholdCounter
from dp_core.wall.ledger.session import MemorySession

NO_OTHER = 2
"""Code of the columns of another member if there is none; persons have the codes 0 and 1."""


def linked(most=3):
    """Return tables of a household column `h` and person columns `p` and `q`, of two codes each."""
    return LinkedTables(
        households="households",
        persons="persons",
        key="id",
        link="household",
        person_key="number",
        max_members=most,
        household_columns=("h",),
        person_columns=("p", "q"),
    )


def domain(most=3):
    """Return the wide domain of `linked`."""
    return Domain(("h", "members", "p", "q", "other.p", "other.q"), (2, most, 2, 2, 3, 3))


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


def households(most=3):
    """Return every household: its code of `h`, and the codes of its members."""
    persons = list(itertools.product(range(2), repeat=2))
    return [
        (h, members)
        for h in range(2)
        for size in range(1, most + 1)
        for members in itertools.combinations_with_replacement(persons, size)
    ]


def pair_rows(file, most=3):
    """Return the pair rows of a file of households."""
    rows = []
    for h, members in file:
        code = len(members) - 1
        if len(members) == 1:
            rows.append((h, code, *members[0], NO_OTHER, NO_OTHER))
        rows += [(h, code, *one, *other) for one, other in itertools.permutations(members, 2)]
    codes = np.array(rows, dtype=np.uint16).reshape(-1, 6)
    return Dataset(domain(most), np.ascontiguousarray(codes.T))


def counter_of(file, most=3):
    """Return the counter of a file, in shares."""
    return HouseholdCounter(MemoryCounter(pair_rows(file, most)), linked(most))


def curator_of(file, currency, neighbours="add-remove", most=3):
    """Return the curator of a file, and its session."""
    session = MemorySession(currency, neighbours, shares=linked(most).shares)
    return Curator(domain(most), counter_of(file, most), session), session
