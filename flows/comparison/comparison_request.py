"""The request of `dp-release compare`, and the options that `release evaluate` checks too."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dp_core.errors import BadInput, nearest
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.field_scores.file_scores import MOST_LEVELS
from dp_core.lab.measures.classification import MOST_CLASSES
from dp_core.text.documents.typed_text import exact_epsilon, exact_number, plain_text

MOST_RUNS = 1000
MOST_JOBS = 256
MOST_HELD_OUT = 0.9
MOST_FORMULA = 1000
_SEED = 2**63 - 1 - MOST_RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A requested comparison.

    Attributes:
        specs: Paths of the specs, at least one.
        out: Folder of the results; None for one named after the first release.
        by: Who declares the data public.
        reason: Why the data are public.
        methods: Presets; if empty, each spec's own.
        epsilons: Epsilons; if empty, each spec's own.
        runs: Runs of each method at each epsilon.
        target: Column that classifiers predict; None for no classifiers.
        formulas: Regressions that are fitted to the file and to each method's sets.
        hold_out: Share of records that no method sees, on which classifiers are tested.
        seed: Seed of post-processing in the first run, increased by 1 for each further run; None
            for each spec's own.
        jobs: Number of processes at a time.
        limit: Seconds after which a run is stopped.
        by_columns: Columns whose subgroups are compared.
        attacks: Whether attacks are made; their control are the records that no method sees.
    """

    specs: tuple[Path, ...]
    out: Path | None
    by: str
    reason: str
    methods: tuple[str, ...] = ()
    epsilons: tuple[Fraction, ...] = ()
    runs: int = 3
    target: str | None = None
    formulas: tuple[str, ...] = ()
    hold_out: float = 0.2
    seed: int | None = None
    jobs: int = 1
    limit: float = 1800.0
    by_columns: tuple[str, ...] = ()
    attacks: bool = False

    @property
    def held_out(self) -> float:
        """Share of records that no method sees; 0 without classifiers and attacks."""
        return self.hold_out if self.target or self.attacks else 0.0

    @property
    def note(self) -> str:
        """Note for the table about classifiers and regressions; empty without them."""
        fitted = ", ".join(f"`{formula}`" for formula in self.formulas)
        regressions = (
            f"Regressions: {fitted}; intercepts are not counted. Sets are combined by the rule of"
            " their mode. Intervals from a single set, or from sets that share one measurement,"
            " ignore the noise."
            if fitted
            else ""
        )
        return " ".join(text for text in (self._test_sentence, regressions) if text)

    @property
    def _test_sentence(self) -> str:
        if self.target is None:
            return ""
        if not self.hold_out:
            return (
                f"Classifiers predict {self.target}; they are tested on a fifth of the records,"
                " which the methods also saw. Those of the bootstrap learn from the other records."
            )
        return (
            f"Classifiers predict {self.target}; they are tested on {self.hold_out:.0%} of the"
            " records, which no method saw. All other figures are computed on the other records."
        )


def request_of(
    *,
    specs: Sequence[Path],
    public_data: bool,
    by: str | None,
    reason: str | None,
    out: Path | None,
    methods: Sequence[str] = (),
    epsilons: Sequence[str] = (),
    runs: str = "3",
    target: str | None = None,
    formulas: Sequence[str] = (),
    hold_out: str | None = None,
    seed: str | None = None,
    jobs: str = "1",
    limit: str = "1800",
    groups: Sequence[str] = (),
    attacks: bool = False,
) -> Request:
    """Return the request for these options.

    Raises:
        BadInput: if an option is invalid, or nobody declares the data public.
    """
    from dp_core.plan.presets import PRESETS
    from dp_core.plan.reading.spec_file import MAX_EPSILON

    if not public_data:
        raise BadInput(
            "A comparison reads the data without any protection. If the data are public, add"
            " --public-data; for confidential data use `dp-release run`."
        )
    if by is None or not by.strip():
        raise BadInput("Say who declares the data public: --by NAME.")
    if reason is None or not reason.strip():
        raise BadInput("Say why the data are public: --reason TEXT.")
    if not specs:
        raise BadInput("Name at least one release spec, as for `dp-release run`.")
    for method in methods:
        plain_text("--method", method)
        if method not in PRESETS:
            raise BadInput(f"--method {method!r} is not known.{nearest(method, PRESETS)}")
    values = [exact_epsilon(text, what="--epsilon", maximum=MAX_EPSILON) for text in epsilons]
    for name in groups:
        plain_text("--group", name)
    if hold_out is not None and target is None and not attacks:
        raise BadInput(
            "--hold-out is the share on which classifiers are tested, or the control of attacks;"
            " add --target or --attacks."
        )
    held = float(exact_number("--hold-out", hold_out)) if hold_out is not None else 0.2
    if held > MOST_HELD_OUT:
        raise BadInput(f"--hold-out is a share from 0 to {MOST_HELD_OUT}, not {hold_out}.")
    if attacks and not held:
        raise BadInput("--attacks needs records that no method saw; give a --hold-out above 0.")
    seconds = float(exact_number("--limit", limit, positive=True))
    return Request(
        specs=tuple(specs),
        out=out,
        by=by.strip(),
        reason=reason.strip(),
        methods=tuple(dict.fromkeys(methods)),
        epsilons=tuple(dict.fromkeys(values)),
        runs=_whole("--runs", runs, least=1, most=MOST_RUNS),
        target=target,
        formulas=tuple(dict.fromkeys(_formula(text) for text in formulas)),
        hold_out=held,
        seed=None if seed is None else _whole("--seed", seed, least=0, most=_SEED),
        jobs=_whole("--jobs", jobs, least=1, most=MOST_JOBS),
        limit=seconds if math.isfinite(seconds) else 1e9,
        by_columns=tuple(dict.fromkeys(groups)),
        attacks=attacks,
    )


def _formula(text: str) -> str:
    plain_text("--formula", text)
    if len(text) > MOST_FORMULA:
        raise BadInput(f"--formula is longer than {MOST_FORMULA} characters.")
    return " ".join(text.split())


def _whole(option: str, text: str, *, least: int, most: int) -> int:
    digits = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,30}", digits):
        raise BadInput(f"{option} is a whole number, such as {max(least, 3)}, not {text!r:.40}.")
    value = int(digits)
    if not least <= value <= most:
        raise BadInput(f"{option} is a whole number from {least} to {most:,}, not {digits}.")
    return value


def refuse_records_only(asked: Mapping[str, object], what: str) -> None:
    """Refuse options whose figures assume independent records, which linked tables do not have.

    Args:
        asked: The options, with what was typed; empty values are those that were left out.
        what: The linked tables, with a verb: `the release has linked tables`.

    Raises:
        BadInput: if one of the options was typed.
    """
    for option, value in asked.items():
        if value:
            raise BadInput(
                f"{option} needs independent records, but {what}, in which the members of a"
                f" household depend on each other; leave out {option}."
            )


def codes_of_column(option: str, domain: Domain, name: str, of: str) -> int:
    """Return the number of codes of the column that an option names.

    Args:
        option: The option, for messages.
        domain: Columns with their sizes.
        name: Name of the column.
        of: The file or release, for messages.

    Raises:
        BadInput: if there is no such column.
    """
    if name not in domain:
        raise BadInput(
            f"{option} {name!r} is not a modelled column of {of}.{nearest(name, domain.columns)}"
        )
    return domain.size((name,))


def check_target(domain: Domain, target: str, of: str) -> None:
    """Check a column that classifiers are to predict; the arguments are those of `codes_of_column`.

    Raises:
        BadInput: if it is no column, the only one, or has too few or too many codes.
    """
    size = codes_of_column("--target", domain, target, of)
    if not 2 <= size <= MOST_CLASSES:
        raise BadInput(
            f"--target {target!r} has {size:,} codes in {of}; a column to predict has 2 to"
            f" {MOST_CLASSES}."
        )
    if len(domain) == 1:
        raise BadInput(f"--target {target!r} is the only column of {of}.")


def check_group(domain: Domain, name: str, of: str) -> int:
    """Return the number of levels of a column of subgroups; see `codes_of_column`.

    Raises:
        BadInput: if it is no column, or has too few or too many levels.
    """
    size = codes_of_column("--group", domain, name, of)
    if not 2 <= size <= MOST_LEVELS:
        raise BadInput(
            f"--group {name!r} has {size:,} levels in {of}; a column of subgroups has 2 to"
            f" {MOST_LEVELS}."
        )
    return size
