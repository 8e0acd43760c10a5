"""What a release answers, wherever it came from: a bundle, or a release in memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from numbers import Real
from typing import Any

from dp_core.analysis.notebook.noisy_tables import NoisyTables
from dp_core.analysis.notebook.statement import columns_words, sets_words, tables_words
from dp_core.analysis.notebook.synthetic_sets import SyntheticSets
from dp_core.analysis.query.changes.change_answer import Release, answer_change
from dp_core.analysis.query.query_answer import QueryAnswer, answer_query
from dp_core.analysis.query.sources import sources_of
from dp_core.analysis.regression.regression_answer import RegressionAnswer
from dp_core.analysis.regression.regression_inference import infer as regression
from dp_core.bundle.reading import Bundle
from dp_core.text.documents.typed_text import plain_text
from dp_core.text.pages.page import Fact, Page
from dp_core.text.pages.printed import Printed
from dp_core.text.pages.python_words import speaks_python


class OpenRelease(Printed):
    """Base of the releases that a notebook opens.

    Attributes:
        sets: The synthetic sets as pandas frames; `sets[0]` is set 1.
        tables: The noisy tables as pandas frames, by their columns.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.sets = SyntheticSets(bundle)

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
        """Return an answer from the noisy tables, as `dp-release query` gives it.

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
        ['Intercept', 'sex[T.female]', 'age']
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


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"The {name} must be a text, not {type(text).__name__}.")
    plain_text(f"The {name}", text)


def _check_level(level: object) -> None:
    if not isinstance(level, Real):
        raise TypeError(f"The level must be a number, such as 0.95, not {level!r:.40}.")
