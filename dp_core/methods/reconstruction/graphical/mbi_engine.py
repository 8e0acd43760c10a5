"""The same fit by the authors' package `mbi`, for comparison. Only this module imports it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from dp_core.client.released import Measurement, Table
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree
from dp_core.schema.structure.structural_zeros import StructuralZeros

_NOTHING = 1e-9  # records; a table with less mass in possible cells becomes uniform over them


def mbi_tables(
    tree: JunctionTree,
    measurements: Sequence[Measurement],
    *,
    total: int,
    zeros: StructuralZeros,
    rounds: int,
) -> tuple[Table, ...]:
    """Return the tables of a tree's cliques under the model that `mbi` fits.

    Args:
        tree: Junction tree; every measurement's clique is contained in one of its cliques.
        measurements: Noisy tables, fitted by least squares weighted by inverse variances.
        total: Number of records.
        zeros: Impossible cells. The fit does not use them; they are set to 0 afterwards.
        rounds: Number of rounds of mirror descent.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax
        import mbi

    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_enable_x64", True)
    domain = mbi.Domain(tree.domain.columns, tree.domain.sizes)
    given = [
        mbi.LinearMeasurement(
            each.values.astype(np.float64).ravel(), each.clique, max(each.variance, 1e-12) ** 0.5
        )
        for each in measurements
        if each.clique
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mbi.estimation.MirrorDescent().estimate(
            domain, given, known_total=float(total), iters=rounds
        )
        values = [
            np.asarray(model.project(clique).datavector(flatten=False)) for clique in tree.cliques
        ]
    found = []
    for clique, each in zip(tree.cliques, values, strict=True):
        project = tree.domain.project(clique)
        possible = ~zeros.mask(project)
        kept = np.maximum(each.astype(np.float64), 0.0) * possible
        if kept.sum() < _NOTHING:
            kept = possible.astype(np.float64)
        found.append(Table(project, kept * (total / max(kept.sum(), _NOTHING))))
    return tuple(found)
