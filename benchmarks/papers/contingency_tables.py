"""Three published tables of counts that the papers on contingency tables use.

Binary columns, as named; the first column varies slowest. The published lists have the first one
vary fastest, and are turned here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLUMNS = {
    "czech": ("smoke", "mental", "phys", "systol", "protein", "family"),
    "mildew": ("la10", "locc", "mp58", "c365", "p53a", "a367"),
    "rochdale": (
        "EconActive",
        "Age",
        "HusbandEmployed",
        "Child",
        "Education",
        "HusbandEducation",
        "Asian",
        "HouseholdWorking",
    ),
}
_PUBLISHED = {
    # 1841 workers of a car factory: Edwards & Havranek 1985.
    "czech": """
        44 40 112 67 129 145 12 23 35 12 80 33 109 67 7 9 23 32 70 66 50 80 7 13 24 25 73 57 51 63
        7 16 5 7 21 9 9 17 1 4 4 3 11 8 14 17 5 2 7 3 14 14 9 16 2 3 4 0 13 11 5 14 4 4
    """,
    # 70 isolates of barley powdery mildew: Christiansen & Giese 1991.
    "mildew": """
        0 0 0 0 3 0 1 0 0 1 0 0 0 1 0 0 1 0 1 0 7 1 4 0 0 0 0 2 1 3 0 11 16 1 4 0 1 0 0 0 1 4 1 4
        0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
    """,
    # 665 households of Rochdale: Whittaker 1990.
    "rochdale": """
        1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
        0 0 0 0 0 0 0 0 2 0 0 0 1 1 1 0 0 0 1 2 0 0 0 0 0 0 0 3 0 22 6 0 0 1 0 0 0 0 0 0 0 0 0 4 1
        26 7 0 0 1 1 0 0 0 0 0 0 0 0 2 1 10 2 0 0 1 0 1 0 0 0 1 0 0 0 3 0 25 10 0 0 4 7 1 1 0 0 0
        1 0 0 0 2 0 0 0 1 0 0 1 1 0 0 0 1 0 0 0 0 0 0 0 0 0 2 0 1 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 11
        0 2 0 8 0 3 2 2 0 1 0 2 0 3 29 26 3 0 0 0 0 0 57 6 43 10 0 0 2 1 11 13 2 0 0 6 0 0 23 5 37
        16 4 0 2 1 11 3 0 1 0 1 0 0 22 4 15 0 1 0 0 1 5 8 0 1 1 4 0 0 18 5 41 17 3 5 2 4
    """,
}


def contingency_table(name: str) -> NDArray[np.int64]:
    """Return the counts of `czech`, `mildew` or `rochdale`, one axis of two codes per column."""
    counts = np.array(_PUBLISHED[name].split(), dtype=np.int64)
    return np.ascontiguousarray(counts.reshape((2,) * len(COLUMNS[name])).transpose())
