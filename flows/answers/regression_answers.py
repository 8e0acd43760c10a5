"""`infer`: a regression on every set of a release, combined by the release's own rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.design import Design, Family
from dp_core.analysis.regression.fitting import (
    Fit,
    check_enough,
    coefficient_names,
    fit_stacked,
)
from dp_core.analysis.regression.frames import Frame, read_frames
from dp_core.bundle.quality.relations import measured_cliques, thin_groups
from dp_core.bundle.reading import Bundle, read_bundle
from dp_core.bundle.report.example_code import SIZES_DIFFER
from dp_core.bundle.statement.release_json import TOLERANCE as WEIGHTS_OFF
from dp_core.errors import BadInput
from dp_core.inference.combine import Combined
from dp_core.inference.combining_rules import OFF, WORDING, covered
from dp_core.inference.formulas.formula import Formula, read_formula
from dp_core.inference.intervals import interval
from dp_core.inference.measured_relations import needed_groups, unmeasured, unmeasured_sentence
from dp_core.metrics.noise_size import expected_tvd
from dp_core.schema.definition import MISSING_LABEL
from dp_core.schema.dependencies import origin
from dp_core.spec.release_spec import Mode
from dp_core.wall.released import Measurement

LARGE_NOISE = 0.10
"""Distance (TVD) that noise alone puts on a table from which on it is called large."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for.

    Attributes:
        folder: The bundle.
        formula: As typed.
        family: None: by the outcome.
        level: Of intervals.
        naive: Whether the fit of one set alone will do.
        weighted: Whether the release's survey weights are used.
    """

    folder: Path
    formula: str
    family: Family | None
    level: float
    naive: bool
    weighted: bool = False


def infer(request: Request) -> dict[str, object]:
    """Return the answer of `dp-release infer`.

    Raises:
        BadInput: if the folder is no whole release, or the formula cannot be fitted on each set.
    """
    bundle = read_bundle(request.folder)
    claims = bundle.claims
    if claims.sets == 1 and not request.naive:
        raise BadInput(
            "This release has one set, so nothing shows how far sets differ and only the naive"
            " interval exists, which misses synthesis and noise: --naive prints it."
        )
    formula = read_formula(request.formula, claims.schema.names)
    weight = claims.schema.weight
    if request.weighted and weight is None:
        raise BadInput("This release has no column of survey weights; leave --weighted out.")
    used = weight.name if weight is not None and request.weighted else None
    frames = read_frames(request.folder, claims.schema, formula.columns, claims.sets, weight=used)
    factor = _size_factor(bundle)
    found = analyse(
        formula, frames, claims.schema, bundle.rule, family=request.family, size_factor=factor
    )
    design, fits, combined = found.design, found.fits, found.combined
    stacked = fit_stacked(design) if combined else None
    words = WORDING[bundle.rule]
    return {
        "folder": str(request.folder),
        "release": claims.name,
        "formula": formula.text,
        "family": design.outcome.family,
        "modelled": design.outcome.in_words,
        "outcome_levels": list(design.outcome.levels),
        "sets": claims.sets,
        "level": request.level,
        "weights": used,
        "rows": [
            {"set": frame.number, "used": frame.rows, "dropped": frame.dropped} for frame in frames
        ],
        "rule": {
            "name": bundle.rule,
            "honest": (combined is not None and combined.honest and bundle.origin == "modelled"),
            "variance": words.variance,
            "degrees_of_freedom": words.degrees_of_freedom,
            "in_words": words.in_words,
            "covers": covered(bundle.rule, bundle.origin),
            "source": words.source,
        },
        "size_factor": factor,
        "complete_df": combined.complete_df if combined else None,
        "coefficients": _coefficients(design, fits, combined, stacked, request.level),
        "covariance": combined.variance.tolist() if combined else fits[0].covariance.tolist(),
        "all_terms": _joint(design, combined) if combined else None,
        "warnings": warnings_of(bundle, formula, combined),
        "notes": [*_of_weights(bundle, used), *_notes(bundle, design, fits, frames, factor)],
    }


def _size_factor(bundle: Bundle) -> float:
    """Return by what W is multiplied so that it speaks of the file's size."""
    rows = sum(bundle.claims.rows) / bundle.claims.sets
    ratio = rows / max(bundle.records, 1.0)
    return ratio if abs(ratio - 1) > SIZES_DIFFER else 1.0


def _coefficients(
    design: Design,
    fits: Sequence[Fit],
    combined: Combined | None,
    stacked: Fit | None,
    level: float,
) -> list[dict[str, object]]:
    """Return one row for each coefficient: combined, and beside it what would be naive."""
    first = _naive(fits[0], level)
    together = _naive(stacked, level) if stacked else None
    rows = []
    for place, name in enumerate(coefficient_names(design)):
        row: dict[str, object] = {"name": name}
        if combined is not None:
            (low, high), (statistic, p_value) = combined.interval(level), combined.test()
            row |= {
                "estimate": float(combined.estimate[place]),
                "std_error": float(combined.standard_error[place]),
                "statistic": float(statistic[place]),
                "degrees_of_freedom": _finite(combined.degrees_of_freedom[place]),
                "p_value": float(p_value[place]),
                "low": float(low[place]),
                "high": float(high[place]),
                "within": float(combined.within[place, place]),
                "between": float(combined.between[place, place]),
            }
        row["one_set"] = {key: float(values[place]) for key, values in first.items()}
        if together is not None:
            row["stacked"] = {key: float(values[place]) for key, values in together.items()}
        row["by_set"] = [
            {
                "estimate": float(fit.coefficients[place]),
                "std_error": float(np.sqrt(fit.covariance[place, place])),
            }
            for fit in fits
        ]
        rows.append(row)
    return rows


def _naive(fit: Fit, level: float) -> Mapping[str, Any]:
    """Return estimate, error and interval of a fit that takes synthetic rows for people."""
    variances = np.diag(fit.covariance)
    degrees = np.inf if fit.residual_df is None else fit.residual_df
    low, high = interval(fit.coefficients, variances, degrees, level)
    return {
        "estimate": fit.coefficients,
        "std_error": np.sqrt(variances),
        "low": low,
        "high": high,
    }


def _joint(design: Design, combined: Combined) -> dict[str, object] | None:
    """Return the test that no term but the intercept matters."""
    terms = [
        place
        for place, name in enumerate(coefficient_names(design))
        if name.rsplit(": ", 1)[-1] != "Intercept"
    ]
    if not terms or len(terms) == len(coefficient_names(design)):
        return None
    found = combined.wald(terms)
    numerator, denominator = found.degrees_of_freedom
    return {
        "statistic": found.statistic,
        "numerator_df": numerator,
        "denominator_df": _finite(denominator),
        "p_value": found.p_value,
    }


def _finite(value: float) -> float | None:
    """Return a number as JSON has it: none where it is infinite."""
    return float(value) if np.isfinite(value) else None


def warnings_of(bundle: Bundle, formula: Formula, combined: Combined | None) -> list[str]:
    """Return why the intervals may not mean what they say."""
    found = []
    if combined is None:
        found.append(
            "The interval is that of one set taken for real people: it misses the drawing of the"
            " set and the noise of the measurement, and is too narrow."
        )
    elif not combined.honest:
        found.append(
            "These intervals are too narrow: all sets come from one noisy measurement, and the"
            " noise that they share does not show between them."
        )
    if bundle.origin != "modelled":
        found.append(f"No interval from these sets is honest: {OFF[bundle.origin]}")
    if bundle.origin in ("drawn", "chosen"):
        return found
    tables, sums = measured_cliques(bundle.measured)
    groups = needed_groups(
        _modelled(bundle, formula.outcome_columns),
        [_modelled(bundle, term) for term in formula.terms],
    )
    if not tables and not sums:
        found.append(
            "The release holds no noisy table, so nothing shows which relations its sets carry; its"
            " report says what the method models."
        )
        return found
    missing = unmeasured(groups, tables)
    lost = [group for group in missing if group in unmeasured(missing, sums)]
    if lost:
        found.append(unmeasured_sentence(lost))
    if len(lost) < len(missing):
        found.append(
            "Some of these relations are in noisy sums, not in tables: the sets have them in the"
            " form of the release's own model only, and curves and interactions that it lacks are"
            " not there."
        )
    # Rows with a missing value are left out, so their number is no coefficient's.
    weak = [
        level
        for level in bundle.near_zero
        if level.split(": ")[0] in _columns(formula) and not level.endswith(MISSING_LABEL)
    ]
    if weak:
        found.append(
            f"Counts of {_listed(weak)} hardly stand out of their noise: coefficients that rest on"
            " such a level are biased, and covered in 78 to 94 of 100 cases rather than 95; merge"
            " it with another."
        )
    mode: Mode = "noise-aware" if bundle.rule == "noise-aware" else "shared"
    thin = dict(thin_groups(bundle.measured, bundle.claims.schema, groups, mode=mode))
    if thin:
        named = [f"{' × '.join(group)} ({share:.0%})" for group, share in thin.items()]
        found.append(
            f"Many cells of {_listed(named)} hardly stand out of their noise. No set has a negative"
            " count, so the tails of these tables are raised, coefficients are drawn towards no"
            " relation, and intervals cover less often than they say; answer from the noisy tables"
            " themselves, or with wider bins."
        )
    noisy = _noisy_groups(bundle, groups)
    if noisy:
        found.append(
            f"Noise is large against the counts in {_listed(noisy)}, by the part of the records"
            " that it moves: coefficients that rest on these tables are uncertain, and can be"
            " biased towards no relation."
        )
    return found


def _modelled(bundle: Bundle, names: Sequence[str]) -> list[str]:
    """Return the columns that these are or follow: what is measured of them."""
    schema = bundle.claims.schema.coarse or bundle.claims.schema
    return list(dict.fromkeys(origin(schema, name)[0] for name in names))


def _columns(formula: Formula) -> list[str]:
    terms = (name for term in formula.terms for name in term)
    return list(dict.fromkeys([*formula.outcome_columns, *terms]))


def _noisy_groups(bundle: Bundle, groups: Sequence[tuple[str, ...]]) -> list[str]:
    """Return tables with large noise that are the best there is for a group, and how large."""
    found: dict[str, float] = {}
    for group in groups:
        held = [
            (
                expected_tvd(
                    item.noise, item.scale, cells=item.values.size, records=bundle.records
                ),
                " × ".join(item.clique),
            )
            for item in bundle.measured
            if isinstance(item, Measurement) and set(group) <= set(item.clique)
        ]
        if held and min(held)[0] > LARGE_NOISE:
            found[min(held)[1]] = min(held)[0]
    return [f"{name} ({100 * min(tvd, 1):.0f} %)" for name, tvd in found.items()]


def _listed(phrases: Sequence[str], most: int = 4) -> str:
    shown = list(phrases[:most])
    if len(phrases) > most:
        shown.append(f"{len(phrases) - most} more tables")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _of_weights(bundle: Bundle, used: str | None) -> list[str]:
    """Return what became of the survey weights."""
    weight = bundle.claims.schema.weight
    if weight is None:
        return []
    if used is None:
        return [
            f"The sets have survey weights ({weight.name}), which were not used: the estimates are"
            " those of the sample; --weighted gives those of the population."
        ]
    found = [
        f"Weighted by {used}, with variances by linearization (Binder 1983): rows are taken as"
        " drawn independently, since a synthetic set knows no strata and clusters."
    ]
    if any(off > WEIGHTS_OFF for off in bundle.claims.off):
        found.append(
            "The weights do not meet all public totals they were to be calibrated to; the release's"
            " statement says by how much."
        )
    return found


def _notes(
    bundle: Bundle,
    design: Design,
    fits: Sequence[Fit],
    frames: Sequence[Frame],
    factor: float,
) -> list[str]:
    """Return what was done on the way that a reader should know."""
    found = list(design.notes)
    if any(frame.dropped for frame in frames):
        dropped = ", ".join(f"{frame.dropped:,}" for frame in frames)
        found.append(f"Rows with a missing value were left out, by set: {dropped}.")
    uneven = check_enough(fits)
    if uneven:
        found.append(uneven)
    if factor != 1:
        found.append(
            f"The sets have {sum(bundle.claims.rows) / bundle.claims.sets:,.0f} rows and the file"
            f" about {bundle.records:,.0f}: W was multiplied by {factor:.3g}, so that it speaks of"
            " the file's size."
        )
    return found


def family_word(text: str | None) -> Family | None:
    """Return a family of regressions by its name, or by what other software calls it.

    Raises:
        BadInput: if there is none.
    """
    from dp_core.analysis.regression.design import FAMILIES
    from dp_core.errors import nearest

    if text is None:
        return None
    other = {
        "ols": "linear",
        "gaussian": "linear",
        "normal": "linear",
        "logit": "logistic",
        "binomial": "logistic",
        "binary": "logistic",
        "mlogit": "multinomial",
        "mnlogit": "multinomial",
        "count": "poisson",
    }
    word = other.get(text.casefold(), text.casefold())
    if word not in FAMILIES:
        raise BadInput(f"--family {text!r:.40} is not known.{nearest(text, FAMILIES)}")
    return cast("Family", word)
