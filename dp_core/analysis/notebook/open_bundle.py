"""A bundle that was opened, with its answers and its statement; `dp_core.read_bundle`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

from dp_core.accounts.requested import words_of
from dp_core.accounts.signatures import read_public
from dp_core.analysis.notebook.noisy_tables import NoisyTables
from dp_core.analysis.notebook.own_estimates import (
    CombinedEstimates,
    combined_estimates,
    estimates_of,
)
from dp_core.analysis.notebook.synthetic_sets import SyntheticSets
from dp_core.analysis.query.change_answer import Release, answer_change
from dp_core.analysis.query.query_answer import QueryAnswer, answer_query
from dp_core.analysis.query.sources import sources_of
from dp_core.analysis.regression.regression_answer import RegressionAnswer
from dp_core.analysis.regression.regression_inference import infer as regression
from dp_core.bundle import reading
from dp_core.bundle.exported_sets import export_sets
from dp_core.bundle.reading import Bundle
from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.bundle.statement.sections import stated_unit
from dp_core.bundle.verification.verify import Verification, verify
from dp_core.schema.definition import Schema
from dp_core.text.documents.typed_text import plain_text
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Page, Sentence
from dp_core.text.pages.printed import Printed
from dp_core.text.pages.python_words import speaks_python


class Statement(Printed, dict[str, Any]):
    """The content of `release.json`; it prints the guarantee, and what lies outside it."""

    def to_json(self) -> dict[str, Any]:
        """Return the whole content as plain values."""
        return dict(self)

    def page(self) -> Page:
        """Return the release, its guarantee, its intervals, and what the guarantee leaves out."""
        release, guarantee = self["release"], self["guarantee"]
        outside = [text.partition(".")[0] for text in guarantee["not_covered"]]
        return (
            Sentence(
                f"{release['title']} (release {release['name']}, version {release['version']})"
            ),
            Fact("Privacy", guarantee_words(self)),
            Fact("Means", guarantee["in_words"]),
            *(Fact("In total", text) for text in guarantee["over_all_releases"]),
            Fact("Outside", f"{'; '.join(outside)}. `guarantee.not_covered` explains each."),
            Fact("Sets", sets_words(self)),
            Fact("Refused", self["refusals"]["in_words"]),
            Fact("Cite as", release["cite_as"]),
        )


def guarantee_words(statement: Statement) -> str:
    """Return epsilon, delta and what they protect."""
    guarantee = statement["guarantee"]
    epsilon, delta = (
        f"{guarantee['tightest'][name]['decimal']:.6g}" for name in ("epsilon", "delta")
    )
    protected = words_of(stated_unit(statement)).rstrip(",")
    return f"epsilon {epsilon}, delta {delta}, for {protected} ({guarantee['neighbours']})"


def tables_words(tables: int, measurements: int) -> str:
    """Return how many tables of counts there are, and from how many measurements.

    >>> tables_words(6, 10)
    '6 tables of counts, from 10 measurements'
    """
    return f"{plural(tables, 'table')} of counts, from {plural(measurements, 'measurement')}"


def columns_words(schema: Schema) -> str:
    """Return the columns of the sets, of linked tables by table."""
    linked = schema.linked
    if linked is None:
        return ", ".join(schema.names)
    homes, persons = ", ".join(linked.household_reads), ", ".join(linked.person_reads)
    return f"{linked.households}: {homes}; {linked.persons}: {persons}"


def sets_words(statement: Mapping[str, Any]) -> str:
    """Return how many sets there are, and what their intervals cover."""
    sets, covers = statement["sets"], statement["inference"]["covers"]
    if not sets["m"]:
        return str(covers)
    rows = sorted(set(sets["rows"]))
    number = f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}"
    what = "households" if "persons" in sets else "rows"
    made = f"{plural(sets['m'], 'set')} of {number} {what} each ({sets['mode']})"
    made += ", and the best set to look at and to train on." if "best" in sets else "."
    return f"{made} Intervals of `infer` cover: {covers}"


class OpenRelease(Printed):
    """Base of the releases that a notebook opens.

    Attributes:
        best: The best set as a pandas frame, for looking and training.
        sets: The synthetic sets as pandas frames; `sets[0]` is set 1.
        tables: The noisy tables as pandas frames, by their columns.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.sets = SyntheticSets(bundle)

    @property
    def best(self) -> Any:
        """The best set, or set 1 in mode `shared`, as a pandas frame; no interval follows from it.

        Raises:
            BadInput: if the release has no best set.
        """
        return self.sets.best()

    @cached_property
    def tables(self) -> NoisyTables:
        """The noisy tables as pandas frames, by their columns."""
        return NoisyTables(self._bundle)

    def _facts_of_sets(self, statement: Mapping[str, Any]) -> Page:
        """Return the facts about tables, sets, declared analyses and columns for a page."""
        declared = self._bundle.declared_texts
        return (
            Fact("Tables", tables_words(len(self.tables), len(self._bundle.measured))),
            Fact("Sets", sets_words(statement)),
            *((Fact("Declared", "; ".join(declared)),) if declared else ()),
            Fact("Columns", columns_words(self._bundle.claims.schema)),
        )

    @cached_property
    def queried(self) -> Release:
        """The bundle with its pooled tables, from which `query` answers."""
        return Release(self._bundle, sources_of(self._bundle))

    @speaks_python
    def query(
        self,
        question: str,
        *,
        level: float = 0.95,
        sampling: bool = False,
        since: OpenRelease | None = None,
    ) -> QueryAnswer:
        """Return an answer from the noisy tables and sets, as `dp-release query` gives it.

        If the tables do not determine the answer, `determined` is False, and `reason` says why.

        Args:
            question: The question; `docs/query.md` has the language.
            level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
            sampling: Whether the intervals also contain the error of the file as a random sample;
                False by default.
            since: An earlier release; then the answer is the change since that release, and whether
                the noise explains it. None by default.

        Raises:
            BadInput: if the text is not a question about this release, or the two releases cannot
                be compared.
            TypeError: if `since` is not a release that was opened.

        >>> import dp_core as dp
        >>> answer = dp.read_bundle("first").query("count by sex")
        >>> list(answer.frame.columns)
        ['sex', 'estimate', 'margin', 'low', 'high']
        >>> answer.to_json()["unit"]
        'records'
        """
        _check_text("question", question)
        _check_level(level)
        if since is None:
            found = self.queried
            return answer_query(
                found.bundle, found.sources, question, level=level, sampling=sampling
            )
        if not isinstance(since, OpenRelease):
            raise TypeError(
                "The earlier release must be one that was opened, such as read_bundle(FOLDER), not"
                f" {since!r:.40}."
            )
        return answer_change(self.queried, since.queried, question, level=level, sampling=sampling)

    @speaks_python
    def infer(
        self,
        formula: str,
        *,
        family: str | None = None,
        level: float = 0.95,
        naive: bool = False,
        weighted: bool = False,
        design: bool = False,
    ) -> RegressionAnswer:
        """Return a regression on every set, combined, as `dp-release infer` gives it.

        Args:
            formula: The formula, such as `income ~ age + sex`.
            family: `linear`, `logistic`, `multinomial` or `poisson`; None (the default) to choose
                it by the outcome.
            level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
            naive: Whether to accept naive intervals if the release has one set; False by default.
            weighted: Whether to use the release's survey weights; False by default.
            design: Whether standard errors follow from the survey's sample design, with its
                weights; False by default.

        Raises:
            BadInput: if the release has no sets, or the formula cannot be fitted on each set.

        >>> import dp_core as dp
        >>> answer = dp.read_bundle("first").infer("income ~ age + sex")
        >>> list(answer.frame.index)
        ['Intercept', 'sex[T.male]', 'age']
        >>> bool((answer.frame["low"] < answer.frame["high"]).all())
        True
        """
        _check_text("formula", formula)
        _check_level(level)
        return regression(
            self._bundle,
            formula,
            family=family,
            level=level,
            naive=naive,
            weighted=weighted,
            by_design=design,
        )

    @speaks_python
    def apply(self, fit: Callable[[Any], object], *, level: float = 0.95) -> CombinedEstimates:
        """Return what your own function estimates from every set, combined by the rule.

        Args:
            fit: A function of a set's pandas frame (`sets[0]`) that returns estimates and their
                variances, a dictionary of names and such pairs, or a fitted model of statsmodels.
            level: Confidence level of the intervals, between 0 and 1; 0.95 by default.

        Raises:
            BadInput: if the release has no sets, or the function returns something else.

        >>> import dp_core as dp
        >>> bundle = dp.read_bundle("first")
        >>> found = bundle.apply(lambda data: (data.income.mean(), data.income.var() / len(data)))
        >>> list(found.frame.columns)
        ['estimate', 'std_error', 'degrees_of_freedom', 'low', 'high']
        """
        found = [estimates_of(fit(data)) for data in self.sets]
        return self.combine(
            [estimates for estimates, _ in found], [each for _, each in found], level=level
        )

    @speaks_python
    def combine(
        self, estimates: Sequence[Any], variances: Sequence[Any], *, level: float = 0.95
    ) -> CombinedEstimates:
        """Return estimates that other software made from every set, combined by the rule.

        Args:
            estimates: For each set, a number, p numbers, or a pandas series, which gives the names.
            variances: For each set, the variance, the p variances, or a covariance of shape (p, p).
            level: Confidence level of the intervals, between 0 and 1; 0.95 by default.

        Raises:
            BadInput: if the release has no sets, or the numbers are not those of its sets.
        """
        _check_level(level)
        return combined_estimates(self._bundle, estimates, variances, float(level))

    @speaks_python
    def export(self, folder: str | os.PathLike[str], format: str) -> tuple[Path, ...]:
        """Write every set to a new folder as CSV, Stata or SPSS files, and return their paths.

        In Stata and SPSS, categories are numbers with value labels, and columns have valid names.

        Args:
            folder: A new or empty folder.
            format: `csv`, `stata` or `spss`; the last two need the package pyreadstat.

        Raises:
            BadInput: if there is no such format, the release has no sets, the folder contains
                files or is in the release, or pyreadstat is not installed.
            StageFailed: if a file cannot be written; nothing is left behind.

        >>> import dp_core as dp
        >>> [path.name for path in dp.read_bundle("first").export("sets", "csv")][:2]
        ['best.csv', 'set-1.csv']
        """
        return export_sets(self._bundle, Path(folder), format)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"The {name} must be a text, not {type(text).__name__}.")
    plain_text(f"The {name}", text)


def _check_level(level: object) -> None:
    if not isinstance(level, Real):
        raise TypeError(f"The level must be a number, such as 0.95, not {level!r:.40}.")


class OpenBundle(OpenRelease):
    """A release as its data user received it.

    Attributes:
        sets: The synthetic sets as pandas frames; `sets[0]` is set 1, read when first used.
        tables: The published noisy tables as pandas frames, by their columns.
        statement: The content of `release.json`.
    """

    @property
    def folder(self) -> Path:
        """Folder of the bundle."""
        assert self._bundle.folder is not None
        return self._bundle.folder

    @cached_property
    def statement(self) -> Statement:
        """The content of `release.json`."""
        return Statement(json.loads((self.folder / STATEMENT).read_bytes()))

    def verify(
        self,
        *,
        public_keys: Iterable[str | os.PathLike[str]] = (),
        measurements: str | os.PathLike[str] | None = None,
    ) -> Verification:
        """Return the check of the bundle's files, receipts and privacy arithmetic.

        It is the check of `dp-release verify`, of the folder as it is now.

        Args:
            public_keys: Files of public keys, one of which must have signed the statement; by
                default any key, or none.
            measurements: Bundle of the earlier release whose noisy tables this one uses; None (the
                default) to check only what this bundle states about that release.

        Raises:
            BadInput: if a key or a folder cannot be read.

        >>> import dp_core as dp
        >>> dp.read_bundle("first").verify().passed
        True
        """
        return verify(
            self.folder,
            trusted=[read_public(Path(key)) for key in public_keys],
            measurements=None if measurements is None else Path(measurements),
        )

    def page(self) -> Page:
        """Return the release, its guarantee, its tables, its sets and its declared analyses."""
        statement = self.statement
        release = statement["release"]
        return (
            Sentence(
                f"{release['title']} (release {release['name']}, version {release['version']})"
            ),
            Fact("Folder", str(self.folder)),
            Fact("Privacy", guarantee_words(statement)),
            *self._facts_of_sets(statement),
        )


def read_bundle(folder: str | os.PathLike[str]) -> OpenBundle:
    """Return the bundle in a folder, after checking that it is as it was published.

    Other files in the folder are allowed.

    Args:
        folder: Folder of a release, with its `release.json`.

    Raises:
        BadInput: if the folder is not a bundle, or the bundle was changed.

    >>> import dp_core as dp
    >>> bundle = dp.read_bundle("first")
    >>> len(bundle.sets), list(bundle.sets[0].columns)
    (5, ['sex', 'age', 'region', 'income'])
    >>> bundle.tables["sex", "age"].head(3)[["sex", "age", "count"]].shape
    (3, 3)
    >>> bundle.statement["release"]["name"]
    'survey-2026'
    """
    return OpenBundle(reading.read_bundle(Path(folder)))
