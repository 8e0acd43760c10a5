"""The part of `napsu_mq.py` that runs in the Python of twinify, and the analysis that both share.

The module imports NumPy only. Run: python twinify_worker.py FILES.npz EPSILON DELTA SETS...
It prints one line of JSON for each file: the intervals by the number of sets, and CPU seconds.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("a", "b", "c", "y")
PAIRS = tuple(itertools.combinations(COLUMNS, 2))
QUANTITIES = (
    *(f"share {name}" for name in COLUMNS),
    *(f"share {one} and {other}" for one, other in PAIRS),
    *(f"logit {name}" for name in COLUMNS[:-1]),
)
Floats = NDArray[np.float64]


def estimates(codes: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the quantities of a file of 0 and 1, and their sampling variances.

    Args:
        codes: Shape (rows, 4), in the order of `COLUMNS`.
    """
    codes = codes.astype(np.float64)
    rows = len(codes)
    shares = [*codes.mean(axis=0)]
    for one, other in itertools.combinations(range(len(COLUMNS)), 2):
        shares.append((codes[:, one] * codes[:, other]).mean())
    found = np.array(shares)
    x = np.column_stack([np.ones(rows), codes[:, :-1]])
    y, beta = codes[:, -1], np.zeros(len(COLUMNS))
    for _ in range(30):
        mean = 1 / (1 + np.exp(-x @ beta))
        information = x.T @ (x * (mean * (1 - mean))[:, None])
        step = np.linalg.solve(information, x.T @ (y - mean))
        beta = beta + step
        if np.abs(step).max() < 1e-9:
            break
    variances = np.diag(np.linalg.inv(information))
    return (
        np.concatenate([found, beta[1:]]),
        np.concatenate([found * (1 - found) / rows, variances[1:]]),
    )


def main() -> None:
    """Fit twinify to each file, and print the intervals."""
    import d3p.random
    import pandas as pd
    from twinify.napsu_mq.napsu_mq import NapsuMQModel
    from twinify.napsu_mq.privacy_accounting import sigma
    from twinify.napsu_mq.rubins_rules import non_negative_conf_int

    epsilon, delta = float(sys.argv[2]), float(sys.argv[3])
    sets = [int(each) for each in sys.argv[4:]]
    # Twinify counts one record replaced by another: L2 sensitivity sqrt(2) for each table.
    noise = sigma(epsilon, delta, (2 * len(PAIRS)) ** 0.5)
    print(json.dumps({"noise": noise}), flush=True)
    for number, codes in enumerate(np.load(sys.argv[1])["files"]):
        begun = time.process_time()
        frame = pd.DataFrame(codes, columns=list(COLUMNS)).astype("category")
        key = d3p.random.PRNGKey()
        try:
            fitted = NapsuMQModel([]).fit(frame, key, epsilon, delta, query_sets=list(PAIRS))
            made = fitted.generate(
                d3p.random.PRNGKey(), max(sets), len(codes), single_dataframe=False
            )
            each = [estimates(one[list(COLUMNS)].to_numpy(dtype=float)) for one in made]
        except Exception as error:  # the peer's failures are counted, not hidden
            print(json.dumps({"number": number, "failed": repr(error)[:200]}), flush=True)
            continue
        values, variances = (np.array(part) for part in zip(*each, strict=True))
        intervals = {}
        for count in sets:
            intervals[str(count)] = [
                list(
                    map(
                        float,
                        non_negative_conf_int(
                            values[:count, place], variances[:count, place], 0.95, *[len(codes)] * 2
                        ),
                    )
                )
                for place in range(len(QUANTITIES))
            ]
        answer = {"number": number, "intervals": intervals, "seconds": time.process_time() - begun}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
