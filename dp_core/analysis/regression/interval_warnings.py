"""Reasons why the intervals of a regression on the sets may be wrong, by coefficient.

Everything here is known from public numbers: what was measured, with what noise, and in which bins.
A concern names the coefficients that it is about; the others are not affected by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dp_core.analysis.regression.column_scores import Compared
from dp_core.bundle.quality.pair_errors import ExpectedErrors, slope_errors
from dp_core.bundle.quality.relations import BinBias, bin_bias, measured_cliques, thin_groups
from dp_core.bundle.reading import Bundle
from dp_core.bundle.report.provenance import enumeration
from dp_core.inference.combine import Combined
from dp_core.inference.combining_rules import OFF
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.measured_relations import (
    inferred_sentence,
    needed_groups,
    undrawn_sentence,
    unmeasured_groups,
    unmeasured_sentence,
)
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.linked_columns import OTHER
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.replicates.posterior.posterior_tables import undrawn_pairs
from dp_core.schema.dependencies import origin
from dp_core.schema.linked.linked_tables import other

BIASED = 0.9
"""Bias and its standard error together, in half widths of the interval, from which to warn.

Of the values tried in `benchmarks/interval_warnings.py`, it best separated intervals that miss from
the others. With a bias of half of its half width, an interval covers in 83 % of cases."""
MOVED = 0.2
"""Change of a coefficient by bins, in half widths of its interval, from which to warn."""
CLEAR = 5.0
"""Size of a coefficient, in standard errors from the noise of the tables, above which the tables
determine it well enough."""
COVERS = 0.65
"""Coverage of a 95 % interval below which a warning names its coefficient, in mode `shared`.

All intervals of these sets are too narrow, and one warning is about all; this names the worst."""
PRIOR = 3.0
"""Standard error due to the noise of the tables, as a multiple of that between posterior sets, from
which to warn that the prior decides.

Chosen on the design `survey` of `benchmarks/interval_warnings.py`; `latent-classes` confirms it."""
_MOST_CELLS = 1 << 16
_Z95 = 1.959963984540054

FEWEST_DEGREES = 5.0
"""Degrees of freedom below which an interval from several sets gets a warning."""

Kind = Literal[
    "few-sets",
    "unmeasured",
    "undrawn",
    "inferred",
    "clusters",
    "cluster-noise",
    "prior",
    "thin",
    "noise",
    "bins",
    "undetermined",
    "outside",
]
WIDE: frozenset[Kind] = frozenset({"few-sets", "undetermined", "outside"})
"""Kinds that say how wide an interval is, not that it misses."""


@dataclass(frozen=True, slots=True)
class Concern:
    """A reason why the intervals of some coefficients may be wrong.

    Attributes:
        kind: `few-sets`: the interval has few degrees of freedom, because there are few sets.
            `unmeasured`: a relation that they need is in no measured table. `undrawn`: the same
            for a pair that posterior sets do not draw because of their limits. `inferred`: the same
            for a pair that they draw, so that intervals include the variance of its prior.
            `clusters`: the sets do not reproduce the correlation within clusters.
            `cluster-noise`: the tables by cluster are mostly noise. `prior`: the pair was
            measured, but its noise is so large that posterior sets follow the prior.
            `thin`: the sets differ from the noisy tables, because they have no negative counts or
            because the method shrinks tables. `noise`: the interval leaves out large noise that all
            sets share. `bins`: the bins are wide for the column, or the density within them may
            decide a mean. `undetermined`: the interval contains every value that the schema allows.
            `outside`: a fitted mean is not possible.
        coefficients: Names of the coefficients.
        text: The reason, in a sentence or two.
    """

    kind: Kind
    coefficients: tuple[str, ...]
    text: str


def general_warnings(bundle: Bundle, combined: Combined | None) -> Iterator[str]:
    """Yield the reasons why all intervals from these sets miss their stated coverage."""
    if combined is None:
        yield (
            "The interval treats the rows of one set as people: it ignores the sampling of the set"
            " and the noise of the measurement, so it is too narrow."
        )
    elif not combined.includes_noise:
        yield (
            "These intervals are too narrow: all sets come from one noisy measurement, and the"
            " differences between sets do not show the noise that they share."
        )
    if bundle.origin != "modelled":
        yield f"No interval from these sets is valid: {OFF[bundle.origin]}"


def relation_warnings(bundle: Bundle, formula: Formula) -> Iterator[str]:
    """Yield a warning about relations that were measured as sums only, or may not be measured."""
    if bundle.origin in ("drawn", "chosen"):
        return
    tables, sums = measured_cliques(bundle.measured)
    if not tables and not sums:
        yield (
            "The release has no noisy table, so it is unknown which relations its sets reproduce;"
            " its report says what the method models."
        )
        return
    missing = unmeasured_groups(_groups(bundle, formula), tables)
    if len(unmeasured_groups(missing, sums)) < len(missing):
        yield (
            "Some of these relations were measured as noisy sums, not as tables: the sets reproduce"
            " them only as far as the release's model does, without other curves or interactions."
        )


def lost_relations(bundle: Bundle, formula: Formula) -> tuple[tuple[str, ...], ...]:
    """Return the groups of columns that the formula needs and that nothing measured holds.

    Empty if the records follow from draws or choices, or if nothing is known of the measurements.
    """
    if bundle.origin in ("drawn", "chosen"):
        return ()
    tables, sums = measured_cliques(bundle.measured)
    if not tables and not sums:
        return ()
    nested = (bundle.claims.schema.coarse or bundle.claims.schema).domain.nested
    return unmeasured_groups(
        unmeasured_groups(_groups(bundle, formula), tables, nested), sums, nested
    )


def concerns(
    bundle: Bundle,
    formula: Formula,
    coefficients: Sequence[Compared],
    combined: Combined | None,
) -> tuple[Concern, ...]:
    """Return the concerns about the coefficients, worst kind first.

    Args:
        bundle: The release.
        formula: Formula of the regression.
        coefficients: What each coefficient compares.
        combined: Combined coefficients; None for a single set.
    """
    found: list[Concern] = []
    lost = lost_relations(bundle, formula)
    pairs = [group for group in lost if len(group) <= 2] if bundle.rule == "posterior" else []
    if left := [group for group in lost if group not in pairs]:
        about = _about(bundle, formula, coefficients, left)
        found.append(Concern("unmeasured", about, unmeasured_sentence(left)))
    if undrawn := _undrawn(bundle, pairs):
        about = _about(bundle, formula, coefficients, undrawn)
        found.append(Concern("undrawn", about, undrawn_sentence(undrawn)))
    if inferred := [pair for pair in pairs if pair not in undrawn]:
        about = _about(bundle, formula, coefficients, inferred)
        found.append(Concern("inferred", about, inferred_sentence(inferred)))
    if bundle.origin in ("drawn", "chosen"):
        return tuple(found)
    return (*found, *_Measured(bundle, formula, combined).concerns(coefficients))


def few_sets(combined: Combined | None, names: Sequence[str]) -> tuple[Concern, ...]:
    """Return the concern about coefficients with few degrees of freedom; none if there are none.

    Args:
        combined: Combined coefficients; None for a single set.
        names: Their names.
    """
    if combined is None:
        return ()
    found = np.broadcast_to(combined.degrees_of_freedom, (len(names),))
    few = [name for name, df in zip(names, found, strict=True) if df < FEWEST_DEGREES]
    if not few:
        return ()
    shown = ", ".join(few[:4]) + (f" and {len(few) - 4} more" if len(few) > 4 else "")
    text = (
        f"Fewer than {FEWEST_DEGREES:g} degrees of freedom for {shown} from {combined.sets} sets:"
        " the intervals are wide, and their widths are uncertain."
    )
    if min(combined.complete_df or math.inf, combined.design_df or math.inf) >= FEWEST_DEGREES:
        text += " More sets from the same noisy tables cost no privacy (`sets: 20`)."
    return (Concern("few-sets", tuple(few), text),)


def _undrawn(bundle: Bundle, pairs: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return those of some pairs that posterior sets do not draw."""
    if not pairs:
        return []
    schema = bundle.claims.schema
    undrawn = {frozenset(pair) for pair in undrawn_pairs(schema.domain, bundle.measured)}
    return [pair for pair in pairs if frozenset(pair) in undrawn]


def _groups(bundle: Bundle, formula: Formula) -> tuple[tuple[str, ...], ...]:
    """Return the groups of columns that a formula needs.

    An outcome of persons is also in a group with that of another member of the household: how alike
    members are affects the standard errors.
    """
    outcome = modelled(bundle, formula.outcome_columns)
    found = needed_groups(outcome, [modelled(bundle, term) for term in formula.terms])
    linked = bundle.claims.schema.linked
    persons = () if linked is None else linked.person_columns
    alike = [(name, other(name)) for name in outcome if name in persons]
    return tuple(dict.fromkeys((*found, *alike)))


def modelled(bundle: Bundle, names: Sequence[str]) -> list[str]:
    """Return the measured columns that these columns are or depend on."""
    schema = bundle.claims.schema.coarse or bundle.claims.schema
    return list(dict.fromkeys(origin(schema, name)[0] for name in names))


def _about(
    bundle: Bundle,
    formula: Formula,
    coefficients: Sequence[Compared],
    lost: Sequence[tuple[str, ...]],
) -> tuple[str, ...]:
    """Return the coefficients that need relations that nothing measured holds.

    A coefficient depends on the relations of its own columns. The intercept depends on all. How
    alike the members of a household are matters to every standard error.
    """
    outcome = set(modelled(bundle, formula.outcome_columns))
    linked = bundle.claims.schema.linked is not None
    about = []
    for one in coefficients:
        own = set(modelled(bundle, one.columns))
        of_pairs = linked and any(name.startswith(OTHER) for group in lost for name in group)
        if not own or of_pairs or any((set(group) - outcome) & own for group in lost):
            about.append(one.name)
    return tuple(about)


class _Measured:
    """Expected errors of the coefficients of one release, from its noisy tables."""

    def __init__(self, bundle: Bundle, formula: Formula, combined: Combined | None) -> None:
        self.bundle, self.formula, self.combined = bundle, formula, combined
        self.schema = bundle.claims.schema
        # Sets of mode `split` have a measurement each; their mean has the mean of the noise.
        self.pooled: Pooled = pool(self.schema.domain, bundle.measured)

    def concerns(self, coefficients: Sequence[Compared]) -> Iterator[Concern]:
        prior, thin, noisy, bins = [], [], [], []
        for one in coefficients:
            errors = self._errors(one)
            if errors is not None:
                if self.bundle.rule == "posterior" and self._follows_prior(one, errors):
                    prior.append(one.name)
                # In mode `shared` a difference between the sets and the noisy table may be noise
                # that the method rightly removed. In mode `posterior` it follows from the prior.
                half = _Z95 * math.hypot(errors.sampling, errors.noise)
                biased = abs(errors.bias) + errors.noise > BIASED * half
                if self.bundle.rule == "split" and biased:
                    thin.append(one.name)
                ratio = (errors.noise / max(errors.sampling, 1e-300)) ** 2
                if self.bundle.rule == "shared" and _coverage(ratio) < COVERS:
                    noisy.append((one.name, _coverage(ratio)))
            elif self._thin_group(one):
                thin.append(one.name)
            if (moved := self._bins(one)) is not None:
                bins.append((one.name, moved))
        if prior:
            yield Concern(
                "prior",
                tuple(prior),
                f"The noisy tables tell little about {listed(prior)}: the sets follow what is usual"
                " among the pairs of this file. These intervals cover on average over such"
                " pairs, not for each.",
            )
        if thin:
            yield Concern(
                "thin",
                tuple(thin),
                f"The sets differ from the noisy tables in {listed(thin)}: small counts are too"
                " large, or relations are weakened. So these intervals cover less often than"
                " stated. Use the noisy tables (`dp-release query`), or merge levels or bins.",
            )
        if noisy:
            worst = min(coverage for _, coverage in noisy)
            names = [name for name, _ in noisy]
            yield Concern(
                "noise",
                tuple(names),
                f"The noise that all sets share is large for {listed(names)}: a 95 % interval is"
                f" expected to cover in {100 * worst:.0f} % of cases or more.",
            )
        if bins:
            changed = [f"{name} ({100 * part:+.0f} %)" for name, (part, _) in bins if part]
            doubt = [f"{name} ({100 * part:.0f} %)" for name, (_, part) in bins if part]
            parts = []
            if changed:
                parts.append(
                    "Within a bin, values in the sets are unrelated to other columns. This alone"
                    f" changes the expected value of {listed(changed)}."
                )
            if doubt:
                parts.append(
                    "Where in its bin a value is was not measured; if the density that the sets"
                    f" assume is wrong, this may change {listed(doubt)}."
                )
            parts.append("A release with narrower bins would avoid it.")
            yield Concern("bins", tuple(name for name, _ in bins), " ".join(parts))

    def _errors(self, one: Compared) -> ExpectedErrors | None:
        """Return the expected errors of a coefficient, or None if no table determines them."""
        if one.x is None or one.y is None or one.counts is None:
            return None
        clique: Clique = (one.columns[0], self.formula.outcome_columns[0])
        domain = self.schema.domain.project(clique)
        if domain.size() > _MOST_CELLS:
            return None
        counts, variance = self.pooled.counts(clique), self.pooled.variance(clique)
        if counts is None or variance is None:
            return None
        ordered = tuple(name for name in self.schema.domain.columns if name in clique)
        impossible = self.schema.zeros.mask(self.schema.domain.project(ordered))
        if ordered != clique:
            impossible = impossible.T
        given = np.where(impossible, np.nan, counts)
        return slope_errors(given, math.sqrt(variance), one.counts, one.x, one.y)

    def _follows_prior(self, one: Compared, errors: ExpectedErrors) -> bool:
        """Whether the sets differ much less than the noise of the tables alone would have it.

        Both are compared with the sampling error, because the scales may differ: a logistic
        coefficient is a logarithm of odds, its expected errors are of a difference of shares.
        """
        if self.combined is None:
            return False
        within, between = (
            float(np.atleast_2d(each)[one.place, one.place])
            for each in (self.combined.within, self.combined.between)
        )
        noise = errors.noise / max(errors.sampling, 1e-300) * math.sqrt(within)
        if abs(float(np.atleast_1d(self.combined.estimate)[one.place])) > CLEAR * noise:
            return False
        spread = math.sqrt((1 + 1 / self.combined.sets) * between / max(within, 1e-300))
        return errors.noise > PRIOR * spread * errors.sampling

    def _thin_group(self, one: Compared) -> bool:
        """Whether many cells of a coefficient's columns are near zero; for interactions."""
        group = tuple(modelled(self.bundle, (*self.formula.outcome_columns, *one.columns)))
        if len(one.columns) == 0 or len(group) < 2 or self.bundle.rule == "posterior":
            return False
        return bool(thin_groups(self.bundle.measured, self.schema, [group]))

    def _bins(self, one: Compared) -> tuple[float, float] | None:
        """Return the expected error of a coefficient by bins, and how far it is in doubt.

        Both are relative to the coefficient without the expected error, and 0 if they do not
        matter; None if neither does. Of a mean, of all records or of a group, the sets have the
        error of the mean; of a difference or a slope, a part is lost, and an intercept differs from
        the mean of all by these. The doubt is about the density within the outcome's bins.
        """
        if self.combined is None:
            return None
        estimate = float(np.atleast_1d(self.combined.estimate)[one.place])
        low, high = self.combined.interval(0.95)
        half = float(np.atleast_1d(high)[one.place] - np.atleast_1d(low)[one.place]) / 2
        outcome = self._bias_of(self.formula.outcome_columns)
        terms = [one.columns] if one.columns else self.formula.terms
        kept = min(math.prod(each.predictor for each in self._bias_of(term)) for term in terms)
        kept *= math.prod(each.outcome for each in outcome)
        moved = doubt = 0.0
        if kept > 0 and (one.columns or one.by_bin is not None):
            moved = (estimate - one.constant) * (1 - 1 / kept)
        if outcome and one.by_bin is not None:
            moved += float(one.by_bin.sum()) * outcome[0].mean
            # That the density of one bin is wrong says nothing of the others.
            doubt = float(np.linalg.norm(one.by_bin * outcome[0].doubt))
        true = estimate - moved or 1e-300
        expected = moved / true if abs(moved) > MOVED * half else 0.0
        decides = doubt > MOVED * half and abs(moved) + doubt > BIASED * half
        uncertain = doubt / abs(true) if decides else 0.0
        return (expected, uncertain) if expected or uncertain else None

    def _bias_of(self, names: Sequence[str]) -> list[BinBias]:
        """Return the bias by bins of the numeric columns among these."""
        found = []
        for name in names:
            if name not in self.schema.domain.columns or self.schema.column(name).levels:
                continue
            counts, variance = self.pooled.counts((name,)), self.pooled.variance((name,))
            if counts is None or variance is None:
                continue
            one = bin_bias(self.schema.column(name), counts, math.sqrt(variance))
            found += [one] if one is not None else []
        return found


def _coverage(ratio: float) -> float:
    """Return the coverage of a 95 % interval that leaves out noise of `ratio` times its variance.

    >>> round(_coverage(0.0), 3), round(_coverage(1.0), 3)
    (0.95, 0.834)
    """
    return math.erf(_Z95 / math.sqrt(2 * (1 + ratio)))


def listed(phrases: Sequence[str], most: int = 4) -> str:
    """Return phrases as a list in words; after `most` of them, the number of the others.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    shown = list(phrases[:most])
    if len(phrases) > most:
        shown.append(f"{len(phrases) - most} more")
    return enumeration(shown)
