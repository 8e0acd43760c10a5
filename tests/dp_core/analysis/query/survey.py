"""A small file with every kind of column, and noisy tables of it."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dp_core.analysis.query.sources import pooled_sources
from dp_core.kernel.privacy import Relation
from dp_core.schema.reading.schema_file import parse_schema
from tests.measured import noisy_table

SCHEMA = parse_schema(
    {
        "version": "1",
        "title": "Town",
        "columns": {
            "sex": {"type": "category", "levels": {"1": "male", "2": "female"}},
            "age": {
                "type": "integer",
                "min": "0",
                "max": "99",
                "edges": ["0", "15", "30", "65", "100"],
                "missing": "level",
            },
            "stage": {
                "type": "ordinal",
                "levels": ["child", "adult", "old"],
                "follows": "age",
                "edges": ["15", "65"],
                "missing": "level",
            },
            "marital status": {
                "type": "category",
                "levels": ["single", "married, or in a union", "widowed and alone", "divorced"],
                "missing": "level",
            },
            "health": {"type": "ordinal", "levels": ["poor", "fair", "good"]},
            "rooms": {"type": "integer", "min": "1", "max": "6"},
            "height": {
                "type": "number",
                "min": "1",
                "max": "2",
                "edges": ["1", "1.5", "1.75", "2"],
            },
            "born": {
                "type": "date",
                "min": "2000-01-01",
                "max": "2009-12-31",
                "edges": ["2000-01-01", "2005-01-01", "2010-01-01"],
            },
        },
        "impossible": [{"age": "<15", "marital status": ["married, or in a union", "divorced"]}],
    }
)
DOMAIN = SCHEMA.domain
PAIRS = tuple(itertools.combinations(DOMAIN.columns, 2))
RECORDS = 4000


def records():
    """Codes of the file, shape (columns, records)."""
    rng = np.random.default_rng(11)
    codes = {
        name: rng.binomial(size - 1, 0.45, RECORDS)
        for name, size in zip(DOMAIN.columns, DOMAIN.sizes, strict=True)
    }
    codes["rooms"] = np.clip(codes["sex"] + rng.binomial(4, 0.5, RECORDS), 0, 5)
    young = (codes["age"] == 0) & np.isin(codes["marital status"], (1, 3))
    codes["marital status"][young] = 0
    return codes


FILE = records()


def counts_of(domain, file, clique):
    """The table of a file, codes by column."""
    own = domain.project(clique)
    cells = np.ravel_multi_index([file[name] for name in clique], own.sizes)
    return np.bincount(cells, minlength=own.size()).reshape(own.sizes)


def noise_of(kind, scale, shape, rng):
    """Noise of a scale; without a generator there is none."""
    if rng is None:
        return np.zeros(shape, dtype=np.int64)
    if kind == "laplace":
        q = -math.expm1(-1 / scale)
        return rng.geometric(q, shape) - rng.geometric(q, shape)
    return np.rint(rng.normal(0, scale, shape)).astype(np.int64)


def noisy_tables(domain, file, cliques, *, scale=1e-7, noise="gaussian", rng=None, **about):
    """Tables of a file as they are released; without a generator they are exact."""
    found = []
    for clique in cliques:
        counts = counts_of(domain, file, clique)
        values = counts + noise_of(noise, scale, counts.shape, rng)
        about |= {"noise": noise, "scale": scale}
        found.append(noisy_table(domain.project(clique), values, **about))
    return found


def pooled(schema, released, *, rows=None, **facts):
    """What questions about some tables are answered from."""
    return pooled_sources(schema, released, rows=rows, relation=Relation("add-remove"), **facts)


def exact(clique):
    """The table of the file."""
    return counts_of(DOMAIN, FILE, clique)


def measured(cliques, *, noise="laplace", **about):
    """Noisy tables of the file; without a generator they are exact."""
    return noisy_tables(DOMAIN, FILE, cliques, noise=noise, **about)


def sources(released, **facts):
    """What questions about the file are answered from."""
    return pooled(SCHEMA, released, **facts)
