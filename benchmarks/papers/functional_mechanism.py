"""The functional mechanism (Zhang, Zhang, Xiao, Yang & Winslett 2012): error by epsilon and size.

    PYTHONPATH=. python benchmarks/papers/functional_mechanism.py --repeats 5

The paper regresses the income of census records on 4 to 13 other columns, at epsilon .1 to 3.2, and
gives the mean squared error of the linear and the misclassification rate of the logistic regression
(income above the mean). Its files are licensed, so this one is generated: 40,000 records of columns
with the ranges of a census, which depend on three hidden factors. 10,000 more are for testing.

- "no privacy": least squares, or the minimiser of the logistic loss.
- "truncated": the Taylor polynomial at coefficients 0, without noise (logistic only).
- "published": the paper's algorithm with its sensitivities, 2 (d + 1)^2 and d^2/4 + 3 d, a ridge of
  4 standard deviations and trimming. Its noise is floating-point, which protects nobody.
- "objective": objective perturbation (Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2, penalty of
  n/1000; logistic only). Its floating-point minimiser protects nobody either. Like "published", it
  spends the whole of epsilon; "objective, a part" spends the part of one of d + 1 regressions.
- "functional", "Taylor at 0", "gradient" and "output": the last regression of real releases by
  `sequential_regression`, whose budget pays for the regressions of all columns. Neighbours differ
  by a replaced record, and the number of records is public, as in the paper.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from common import versions
from numpy.typing import NDArray

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.questions.regressions.features import Features, Number
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.sequential_regression import SequentialRegression
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables

ROWS, TESTED = 40_000, 10_000
EPSILONS = ("0.1", "0.2", "0.4", "0.8", "1.6", "3.2")
DIMENSIONS = (4, 7, 10, 13)
USUAL = ("0.8", 13)
"""Epsilon and number of predictors where the other varies, as in the paper."""

# Name, number of values, loadings on three factors, of a census: age, sex, married, education, ...
COLUMNS = (
    ("age", 96, (0.6, 0.5, 0.0)),
    ("sex", 2, (0.0, 0.2, 0.4)),
    ("education", 18, (0.8, -0.3, 0.0)),
    ("family", 15, (-0.3, 0.5, 0.2)),
    ("born_abroad", 2, (-0.3, 0.0, 0.3)),
    ("owner", 2, (0.5, 0.4, 0.0)),
    ("cars", 7, (0.6, 0.2, 0.2)),
    ("disability", 2, (-0.3, 0.5, 0.0)),
    ("children", 11, (-0.2, 0.5, 0.3)),
    ("hours", 100, (0.5, -0.3, 0.5)),
    ("rooms", 10, (0.5, 0.4, 0.1)),
    ("years_here", 16, (0.0, 0.6, -0.3)),
    ("married", 2, (0.2, 0.6, 0.0)),
)
INCOME = 2001
"""Number of values of the income."""

Floats = NDArray[np.float64]


def census(rows: int, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Return codes of all predictors and last of the income, shape (columns, rows)."""
    factors = rng.normal(size=(3, rows))
    codes = []
    for _, size, loadings in COLUMNS:
        weights = np.array(loadings)
        latent = weights @ factors + np.sqrt(1 - weights @ weights) * rng.normal(size=rows)
        if size == 2:
            codes.append(latent > 0.4)
            continue
        place = (size - 1) * (0.4 + 0.16 * latent)
        codes.append(np.clip(np.rint(place), 0, size - 1))
    income = np.exp(0.45 * (np.array([0.8, 0.1, 0.5]) @ factors + 0.8 * rng.normal(size=rows)))
    codes.append(np.clip(np.rint(income * INCOME / 8), 0, INCOME - 1))
    return np.stack(codes).astype(np.uint16)


def variables_of(dimensions: int, *, above: bool) -> Variables:
    """Return the first predictors and the income, or whether it is above the mean."""
    found = [
        Variable(name=name, size=2)
        if size == 2
        else Variable(name=name, size=size, positions=size, low=0, high=size - 1)
        for name, size, _ in COLUMNS[:dimensions]
    ]
    last = (
        Variable(name="income", size=2)
        if above
        else Variable(name="income", size=INCOME, positions=INCOME, low=-1, high=1)
    )
    return Variables((*found, last))


def scaled(codes: NDArray[np.uint16], variables: Variables) -> tuple[Floats, Floats]:
    """Return predictors in [-1, 1] or {0, 1} with an intercept, and the outcome."""
    x = [np.ones(codes.shape[1])]
    for variable, own in zip(variables, codes, strict=True):
        if variable.numeric:
            x.append(2 * own.astype(np.float64) / (variable.positions - 1) - 1)
        else:
            x.append(own.astype(np.float64))
    return np.column_stack(x[:-1]), x[-1]


class KnownRows(Curator):
    """A curator of a file whose number of records is public, as the paper has it."""

    def public_rows(self) -> int | None:
        return ROWS


def released(data: Dataset, variables: Variables, epsilon: str, **options: object) -> Floats:
    """Return the coefficients of the last regression, of predictors scaled as in `scaled`."""
    method = SequentialRegression(**options)  # type: ignore[arg-type]
    cost = Fraction(epsilon)
    session = MemorySession(Currency("pure", cost), "replace-one")
    curator = KnownRows(Kernel(variables.domain, MemoryCounter(data), session))
    zeros = StructuralZeros()
    answers = method.measure(
        MethodInputs(
            curator=curator,
            domain=variables.domain,
            measure_cost=cost,
            stated_rows=ROWS,
            zeros=zeros,
            rng=np.random.default_rng(0),
        ),
        variables,
    )
    chain = method.model_of(variables, FitInputs(variables.domain, answers, ROWS, zeros)).chain  # type: ignore[attr-defined]
    last = len(variables) - 1
    fit = chain.fits[last, "number" if variables.all[last].numeric else "levels"]
    features = Features(chain._predictors[:last])
    return unscaled(features, variables, fit.coefficients.reshape(-1))


def unscaled(features: Features, variables: Variables, coefficients: Floats) -> Floats:
    """Return coefficients for predictors scaled by their range instead of by centre and reach."""
    found = coefficients.copy()
    for at, (feature, variable) in enumerate(
        zip(features.all, list(variables)[:-1], strict=True), start=1
    ):
        if variable.numeric:
            assert isinstance(feature, Number)
            low, high = feature.knots[0][0], feature.knots[-1][0]
            own = 2 * (variable.positions - 1)  # of the range, in half steps
            found[at] *= own / (high - low)
            found[0] -= coefficients[at] * (low + high - own) / (high - low)
    return found


def published(
    x: Floats, y: Floats, epsilon: float, rng: np.random.Generator, *, above: bool
) -> Floats:
    """Return the paper's coefficients: predictors in [0, 1/sqrt(d)], no intercept."""
    d = x.shape[1] - 1
    # An intercept is one more predictor, so that the peers have the same model.
    z = np.column_stack([np.ones(len(x)), np.where(x[:, 1:] < 0, 0, x[:, 1:])])
    numbers = x[:, 1:].min(axis=0) < 0
    z[:, 1:][:, numbers] = (x[:, 1:][:, numbers] + 1) / 2
    z /= np.sqrt(d + 1)
    if above:
        quadratic, linear = z.T @ z / 8, z.T @ (y - 0.5)
        delta = (d + 1) ** 2 / 4 + 3 * (d + 1)
    else:
        quadratic, linear = z.T @ z, 2 * z.T @ y
        delta = 2 * (d + 2) ** 2
    scale = delta / epsilon if np.isfinite(epsilon) else 0.0
    noise = np.triu(rng.laplace(size=quadratic.shape) * scale)
    # The noise of w_i w_j, i < j, is halved in the matrix, where the product stands twice.
    quadratic = quadratic + (noise + noise.T) / 2
    linear = linear + rng.laplace(size=len(linear)) * scale
    values, vectors = np.linalg.eigh(quadratic)
    values = values + 4 * np.sqrt(2) * scale
    kept = values > 1e-9 * values.max()
    w = vectors[:, kept] @ ((vectors[:, kept].T @ linear) / (2 * values[kept]))
    slopes = w / np.sqrt(d + 1)
    found = slopes.copy()
    found[1:][numbers] = slopes[1:][numbers] / 2
    found[0] += slopes[1:][numbers].sum() / 2
    return found


def objective(x: Floats, y: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return the coefficients by objective perturbation, of predictors scaled to a norm of 1."""
    length = np.sqrt(x.shape[1])
    ridge = len(x) / 1000
    left = epsilon - 2 * np.log1p(1 / (4 * ridge))
    if left <= 0:
        ridge, left = max(ridge, 1 / (4 * (np.exp(epsilon / 4) - 1))), epsilon / 2
    random = rng.normal(size=x.shape[1])
    random *= rng.gamma(x.shape[1], 2 / left) / np.linalg.norm(random)
    return logistic(x / length, y, ridge=ridge, linear=random) / length


def logistic(x: Floats, y: Floats, *, ridge: float = 1e-9, linear: Floats | float = 0.0) -> Floats:
    """Return the minimiser of the logistic loss, a penalty and a linear term."""
    found = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-x @ found))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(found))
        found = found + np.linalg.solve(hessian, x.T @ (y - p) - ridge * found - linear)
    return found


def repeat(seed: int, dimensions: int, epsilon: str) -> Mapping[tuple[str, str], float]:
    """Return the error of every method, for one file."""
    rng = np.random.default_rng([seed, dimensions])
    codes = census(ROWS + TESTED, rng)
    mean = float(codes[-1, :ROWS].mean())
    found: dict[tuple[str, str], float] = {}
    for above, task in ((False, "linear"), (True, "logistic")):
        variables = variables_of(dimensions, above=above)
        own = codes[[*range(dimensions), -1]].copy()
        if above:
            own[-1] = own[-1] > mean
        data = Dataset(variables.domain, np.ascontiguousarray(own[:, :ROWS]))
        x, y = scaled(own, variables)
        (x, tested), (y, truth) = (x[:ROWS], x[ROWS:]), (y[:ROWS], y[ROWS:])
        ways = {
            "no privacy": logistic(x, y) if above else np.linalg.lstsq(x, y, rcond=None)[0],
            "published": published(x, y, float(epsilon), rng, above=above),
            "functional": released(data, variables, epsilon, minimiser="functional"),
            "gradient": released(data, variables, epsilon),
        }
        if above:
            ways["truncated"] = published(x, y, np.inf, rng, above=True)
            ways["objective"] = objective(x, y, float(epsilon), rng)
            part = float(epsilon) / (dimensions + 1)
            ways["objective, a part"] = objective(x, y, part, rng)
            ways["Taylor at 0"] = released(data, variables, epsilon, minimiser="functional-zero")
            ways["output"] = released(data, variables, epsilon, minimiser="output")
        for name, coefficients in ways.items():
            if above:
                error = np.mean((tested @ coefficients > 0) != (truth > 0.5))
            else:
                error = np.mean((np.clip(tested @ coefficients, -1, 1) - truth) ** 2)
            found[task, name] = float(error)
    return found


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(versions())
    settings = [(USUAL[1], epsilon) for epsilon in EPSILONS]
    settings += [(dimensions, USUAL[0]) for dimensions in DIMENSIONS[:-1]]
    heads: list[tuple[str, str]] | None = None
    for dimensions, epsilon in settings:
        errors = [repeat(asked.seed + each, dimensions, epsilon) for each in range(asked.repeats)]
        if heads is None:
            heads = sorted(errors[0])
            print("d  epsilon  " + "  ".join(f"{task} {name}" for task, name in heads))
        means = [np.mean([each[head] for each in errors]) for head in heads]
        print(f"{dimensions:2} {epsilon:>6}  " + "  ".join(f"{each:.4f}" for each in means))


if __name__ == "__main__":
    main()
