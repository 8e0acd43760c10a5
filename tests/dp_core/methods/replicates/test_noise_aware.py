"""Noise-aware sets: the noise is drawn once more, and shows between the sets as it must."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.client.released import Records
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.methods import registry
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.multiplicative_weights import MultiplicativeWeights
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.replicates.noise_aware import redraw, unshrunk
from dp_core.plan.reading.method_reader import check_mode
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_answers, noisy_table
from tests.specs import FIXED, write_spec

DOMAIN = Domain(("a", "b", "c"), (2, 2, 3))
PAIRS = (("a", "b"), ("b", "c"))
SCALE = 40.0
METHODS = [
    name
    for name in registry.available("reconstruction")
    if "tables" in registry.find("reconstruction", name).takes
    and not hasattr(registry.find("reconstruction", name), "against_inference")
]
REFUSED = ("average", "linear_program")


def indicators(clique):
    """Return which cells of the joint table each cell of a clique adds up, shape (cells, joint)."""
    codes = np.indices(DOMAIN.sizes)[list(DOMAIN.axes(clique))].reshape(len(clique), -1)
    place = np.ravel_multi_index(tuple(codes), DOMAIN.project(clique).sizes)
    return (np.arange(DOMAIN.size(clique))[:, None] == place).astype(float)


JOINT = np.random.default_rng(3).integers(300, 700, DOMAIN.size()).astype(float)


def measured(kind="gaussian", scale=SCALE, seed=5):
    rng = np.random.default_rng(seed)
    noise = rng.laplace if kind == "laplace" else rng.normal
    return [
        noisy_table(
            DOMAIN.project(clique),
            np.rint(indicators(clique) @ JOINT + noise(0, scale, DOMAIN.size(clique)))
            .astype(np.int64)
            .reshape(DOMAIN.project(clique).sizes),
            noise=kind,
            scale=scale,
        )
        for clique in PAIRS
    ]


def draws(given, sets, seed=7):
    return [
        redraw(given, number=number, sets=sets, rng=np.random.default_rng(seed))
        for number in range(1, sets + 1)
    ]


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1.5, 60.0])
def test_the_spread_of_a_number_is_the_variance_of_its_noise(kind, scale):
    domain = Domain(("a", "b"), (40, 50))
    table = noisy_table(domain, np.full(domain.sizes, 100), noise=kind, scale=scale)
    sets = 5
    drawn = np.array([item.values for (item,) in draws([table], sets)])
    assert drawn.dtype == np.int64
    spread = (1 + 1 / sets) * drawn.var(axis=0, ddof=1).mean()
    # 2,000 cells and 4 degrees of freedom of each: a standard error of 2 % (Laplace: 4 %).
    # Rounding adds 1/12; the discrete Laplace noise varies by 1/6 less than the continuous.
    assert spread == pytest.approx(table.variance, rel=0.15, abs=0.3)
    # Centred: the sets' mean is what was published, but for rounding.
    assert np.abs(drawn.mean(axis=0) - 100).max() <= 0.5
    flat = drawn.reshape(sets, -1) - 100
    assert abs(np.corrcoef(flat[:, :-1].ravel(), flat[:, 1:].ravel())[0, 1]) < 0.06


def test_the_same_generator_gives_the_same_draw_and_another_set_another():
    given = measured()
    (one, _), (again, _), (other, _) = (
        redraw(given, number=number, sets=3, rng=np.random.default_rng(1)) for number in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.values, again.values)
    assert (one.values != other.values).any()
    assert (one.noise, one.scale, one.clique) == (
        given[0].noise,
        given[0].scale,
        given[0].clique,
    )


def test_answers_are_redrawn_as_tables_are():
    queries = Cells((("a", "b"),) * 4, ((0, 0), (0, 1), (1, 0), (1, 1)))
    answers = noisy_answers(queries, np.full(4, 500), noise="laplace", scale=30.0)
    values = np.array([item.values for (item,) in draws([answers], 100)])
    # 4 numbers, 99 degrees of freedom of each, of Laplace noise: a standard error of 12 %.
    assert values.var(axis=0, ddof=1).mean() == pytest.approx(answers.variance, rel=0.5)


def test_what_has_no_noise_of_its_own_is_refused():
    records = Records(Dataset(DOMAIN, np.zeros((3, 5), dtype=np.uint16)))
    with pytest.raises(TypeError, match="Records"):
        redraw([records], number=1, sets=2, rng=np.random.default_rng(1))


@pytest.mark.parametrize(("number", "sets"), [(0, 5), (6, 5), (1, 1)])
def test_a_set_is_one_of_at_least_two(number, sets):
    with pytest.raises(ValueError, match="at least 2"):
        redraw(measured(), number=number, sets=sets, rng=np.random.default_rng(1))


def test_shrinking_is_switched_off_and_all_else_kept():
    assert unshrunk(Pgm(engine="mbi")) == Pgm(engine="mbi", shrink=False, smoothing=0.1, evened=0)
    assert unshrunk(Gum(rounds=3)) == Gum(rounds=3, shrink=False, implied=False)


@pytest.mark.parametrize("name", METHODS)
def test_between_the_sets_of_every_reconstruction_is_the_noise_and_nothing_else(name):
    """(1 + 1/m) B of shares is a'PSP'a: S the noise of the tables, P their least-squares fit."""
    cliques = [("a",), ("b",), ("c",), *(PAIRS if name != "independent" else ())]
    shares = np.concatenate([indicators(clique)[1:] for clique in cliques])
    asked = np.concatenate([indicators(clique) for clique in PAIRS])
    rows, p = JOINT.sum(), JOINT / JOINT.sum()
    of_noise = SCALE**2 * np.linalg.pinv(asked.T @ asked)
    slopes = (shares - (shares @ p)[:, None]) / rows
    expected = np.einsum("ij,jk,ik->i", slopes, of_noise, slopes)
    sampling = (shares @ p) * (1 - shares @ p) / rows
    assert (expected / sampling > 0.5).all()  # so a sample's own variance would show

    method = unshrunk(registry.find("reconstruction", name)())
    sets = 10 if name == "multiplicative_weights" else 40  # which takes its time
    found = []
    for seed, given in enumerate(draws(measured(), sets)):
        model = method.fit(
            DOMAIN, given, rows=None, zeros=StructuralZeros(), rng=np.random.default_rng(0)
        )
        data = model.sample(model.rows, rng=np.random.default_rng(seed))
        cells = np.ravel_multi_index(tuple(data.codes.astype(np.int64)), DOMAIN.sizes)
        found.append(shares @ np.bincount(cells, minlength=DOMAIN.size()) / data.rows)
    ratio = (1 + 1 / sets) * np.var(found, axis=0, ddof=1) / expected
    # One share has a standard error of 23 %. Without noise there would be 0, at half its scale .25,
    # with records drawn independently about 2.
    assert 0.7 < ratio.mean() < 1.4
    assert (ratio < 2).all()
    once = method.fit(
        DOMAIN, measured(), rows=None, zeros=StructuralZeros(), rng=np.random.default_rng(0)
    )
    tables = [once.project(clique).ravel()[1:] / once.rows for clique in cliques]
    # Centred, so the sets' mean is the fit to what was published.
    away = (np.mean(found, axis=0) - np.concatenate(tables)) / np.sqrt(expected)
    assert np.abs(away).max() < 0.25


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", ["noise-aware", "split"])
def test_a_model_that_does_not_follow_the_noise_makes_no_noise_aware_sets(name, mode):
    selector = registry.find("selection", "ways")()
    method = registry.find("reconstruction", name)()
    asked = (mode, 5, selector, "ways", method, name)
    if mode == "split":
        check_mode(*asked)
        return
    with pytest.raises(BadInput, match=rf"{name} cannot .*method: pgm"):
        check_mode(*asked)
    # Of single numbers pgm makes nothing, so it is not what to take.
    with pytest.raises(BadInput, match="Use method: aim, or mode: split"):
        check_mode(mode, 5, registry.find("selection", "fourier")(), "fourier", method, name)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_not_refused_makes_them(name):
    method = registry.find("reconstruction", name)()
    check_mode("noise-aware", 5, registry.find("selection", "ways")(), "ways", method, name)


def test_an_even_table_that_pulls_is_refused_where_it_was_asked_for(tmp_path):
    """And left out where it was not: by default it counts for a dozen records and more."""
    text = "synthesize: {mode: noise-aware}\nreconstruct: {method: multiplicative_weights%s}\n"
    spec = write_spec(tmp_path, FIXED + text % "")
    assert spec.reconstructor == MultiplicativeWeights(updates="limit", prior=1.0)
    for stated, must in (("prior: 20", "must be 1.0"), ("updates: steps", "must be limit")):
        with pytest.raises(BadInput, match=must):
            write_spec(tmp_path, FIXED + text % f", {stated}")


def test_shares_of_a_rare_level_are_not_drawn_towards_even():
    """Weighting pulls a rare level up by default; what noise-aware sets take does not."""
    rows, exact = 2000, np.array([1950.0, 50.0])
    domain = Domain(("a",), (2,))
    (table,) = [noisy_table(domain, exact.astype(int), scale=40.0)]

    def pulled(method):
        fitted = method.fit(
            domain, [table], rows=rows, zeros=StructuralZeros(), rng=np.random.default_rng(0)
        )
        return float(fitted.project(("a",))[1]) - 50

    usual, without = pulled(MultiplicativeWeights()), pulled(unshrunk(MultiplicativeWeights()))
    assert usual > 2
    assert 0 <= without < usual / 2


@pytest.mark.parametrize("name", ["pgm", "gum", "bayes_network", "multiplicative_weights"])
def test_options_for_inference_are_options(name):
    method = registry.find("reconstruction", name)
    assert method.for_inference
    assert all(hasattr(method(), option) for option in method.for_inference)
    assert unshrunk(unshrunk(method())) == unshrunk(method())
