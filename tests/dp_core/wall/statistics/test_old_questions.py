"""The linear family beside the classes with proofs of their own, on random questions and files."""

import itertools

import numpy as np
import pytest

from dp_core.wall.statistics import binned_counts, box_counts, interactions, kernel_counts, moments
from dp_core.wall.statistics import linear_questions as new
from dp_core.wall.statistics.histograms import cosines
from tests.dp_core.wall.statistics.neighbours import RELATIONS


def edges(rng, size):
    inner = rng.choice(np.arange(1, size), rng.integers(0, size - 1), replace=False)
    return (0, *sorted(map(int, inner)), size)


def boxes(rng, sizes):
    """Cut a grid along both axes; some of its boxes."""
    every = [
        (a, b, c, d)
        for a, b in itertools.pairwise(edges(rng, sizes[0]))
        for c, d in itertools.pairwise(edges(rng, sizes[1]))
    ]
    return tuple(every[: rng.integers(1, len(every) + 1)])


def size(rng, least=1, most=6):
    return int(rng.integers(least, most + 1))


def drawn(kind, rng):
    """Return the old class, the new one, their fields, and the sizes of their columns."""
    p, q, n = size(rng, 2), size(rng, 2), size(rng)
    match kind:
        case "cell-counts":
            fields = {"by": ("g",), "sizes": (n,), "numbers": ("x", "y"), "positions": (p, q)}
            return moments.CellCounts, new.CellCounts, fields, (n, p + 1, q + 1)
        case "cell-sums":
            fields = {"column": "x", "positions": p, "by": ("g",), "sizes": (n,)}
            return moments.CellSums, new.CellSums, fields, (n, p + 1)
        case "products":
            fields = {"columns": ("x", "y"), "positions": (p, q)}
            return moments.Products, new.MiddleProducts, fields, (p + 1, q + 1)
        case "squares":
            fields = {"columns": ("x", "x"), "positions": (p, p)}
            return moments.Products, new.MiddleProducts, fields, (p + 1,)
        case "binned-counts":
            fields = {"columns": ("a", "b"), "sizes": (p, q), "edges": (edges(rng, p), None)}
            return binned_counts.BinnedCounts, new.BinnedCounts, fields, (p, q)
        case "box-counts":
            fields = {"columns": ("a", "b"), "sizes": (p, q), "boxes": boxes(rng, (p, q))}
            return box_counts.BoxCounts, new.BoxCounts, fields, (p, q)
        case "kernel-counts":
            cuts = edges(rng, p)
            weights = (size(rng), *(size(rng, 0) for _ in range(rng.integers(len(cuts) - 1))))
            fields = {"column": "x", "positions": p, "edges": cuts, "weights": weights}
            return kernel_counts.KernelCounts, new.KernelCounts, fields, (p + 1,)
        case "cosine-sums":
            cuts = edges(rng, p)
            total = p + int(rng.integers(2))
            fields = {"column": "x", "size": total, "edges": cuts}
            fields["kept"] = int(rng.integers(1, len(cuts)))
            return cosines.CosineSums, new.CosineSums, fields, (total,)
        case "interaction":
            sizes = tuple(size(rng, 2, 5) for _ in range(size(rng, 1, 3)))
            fields = {"columns": tuple("abc"[: len(sizes)]), "sizes": sizes}
            return interactions.Interaction, new.Interaction, fields, sizes


KINDS = (
    "cell-counts",
    "cell-sums",
    "products",
    "squares",
    "binned-counts",
    "box-counts",
    "kernel-counts",
    "cosine-sums",
    "interaction",
)


def vectors(question, sizes):
    cells = np.indices(sizes).reshape(len(sizes), -1).T.astype(np.uint16)
    one = np.ones(1, dtype=np.int64)
    return np.stack([question.total(cell[None], one) for cell in cells])


@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_descriptions_are_equal(kind):
    rng = np.random.default_rng(1)
    for _ in range(50):
        old_kind, new_kind, fields, sizes = drawn(kind, rng)
        old, now = old_kind(**fields), new_kind(**fields)
        cells = np.unique(np.column_stack([rng.integers(0, s, 30) for s in sizes]), axis=0)
        counts = rng.integers(1, 2 ** int(rng.integers(1, 61)), len(cells))
        for some in (slice(None), slice(2), slice(0)):
            found = now.total(cells[some].astype(np.uint16), counts[some])
            np.testing.assert_array_equal(
                found, old.total(cells[some].astype(np.uint16), counts[some])
            )
        assert old.to_json() == now.to_json()
        assert (old.length, old.clique) == (now.length, now.clique)
        assert {*old.claimed_codes()} == {*now.claimed_codes()}
        assert new_kind.read(old.to_json()) == now


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_sensitivities_are_between_the_true_ones_and_those_of_before(kind, relation):
    rng = np.random.default_rng(2)
    for _ in range(50):
        old_kind, new_kind, fields, sizes = drawn(kind, rng)
        old, now = old_kind(**fields), new_kind(**fields)
        each = vectors(now, sizes)
        if relation == "replace-one":
            each = (each[:, None] - each).reshape(-1, now.length)
        l1 = max(1, int(np.abs(each).sum(axis=1).max()))
        l2_squared = max(1, int((each.astype(object) ** 2).sum(axis=1).max()))
        assert l1 <= now.l1(relation) <= old.l1(relation), fields
        assert l2_squared <= now.l2_squared(relation) <= old.l2_squared(relation), fields
        if relation == "add-remove" or len(sizes) == 1:
            assert (l1, l2_squared) == (now.l1(relation), now.l2_squared(relation))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("kind", "now", "fields"),
    [
        (moments.CellSums, new.CellSums, {"column": "x", "positions": 2**16}),
        (
            moments.CellSums,
            new.CellSums,
            {"column": "x", "positions": 500, "by": ("g", "h"), "sizes": (1000, 9)},
        ),
        (moments.Products, new.MiddleProducts, {"columns": ("x", "x"), "positions": (2**16,) * 2}),
        (moments.Products, new.MiddleProducts, {"columns": ("x", "y"), "positions": (2**16,) * 2}),
        (
            kernel_counts.KernelCounts,
            new.KernelCounts,
            {
                "column": "x",
                "positions": 4096,
                "edges": tuple(range(0, 4097, 16)),
                "weights": (4096, 3000, 1500, 400, 20),
            },
        ),
        *(
            (
                cosines.CosineSums,
                new.CosineSums,
                {"column": "x", "size": 256 + more, "edges": tuple(range(257)), "kept": kept},
            )
            for more in (0, 1)
            for kept in (1, 2, 30, 256)
        ),
        (interactions.Interaction, new.Interaction, {"columns": ("a",), "sizes": (20_000,)}),
        (interactions.Interaction, new.Interaction, {"columns": ("a", "b"), "sizes": (20_000, 2)}),
        (interactions.Interaction, new.Interaction, {"columns": ("a", "b"), "sizes": (30, 70)}),
        (
            binned_counts.BinnedCounts,
            new.BinnedCounts,
            {"columns": ("a", "b"), "sizes": (2**13, 2**13), "edges": (None, None)},
        ),
        (
            box_counts.BoxCounts,
            new.BoxCounts,
            {
                "columns": ("x",),
                "sizes": (5000,),
                "boxes": tuple((code, code + 1) for code in range(4096)),
            },
        ),
    ],
)
def test_large_questions_are_no_more_sensitive_than_before(relation, kind, now, fields):
    old, now = kind(**fields), now(**fields)
    assert now.l1(relation) <= old.l1(relation)
    assert now.l2_squared(relation) <= old.l2_squared(relation)
