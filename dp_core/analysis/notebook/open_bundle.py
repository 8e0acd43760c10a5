"""A bundle that was opened: what `dp_core.read_bundle` returns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cached_property
from numbers import Real
from pathlib import Path

from dp_core.analysis.notebook.noisy_tables import NoisyTables
from dp_core.analysis.notebook.statement import Statement, guarantee_words, sets_words
from dp_core.analysis.notebook.synthetic_sets import SyntheticSets
from dp_core.analysis.query.query_answer import QueryAnswer, answer_query
from dp_core.analysis.query.sources import Sources, sources_of
from dp_core.analysis.regression.regression_answer import RegressionAnswer
from dp_core.analysis.regression.regression_answer import infer as regression
from dp_core.bundle import reading
from dp_core.bundle.reading import Bundle
from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.bundle.verification.verify import Verification, verify
from dp_core.display.page import Fact, Page, Sentence
from dp_core.display.printed import Printed
from dp_core.documents.typed_text import plain_text
from dp_core.wall.ledger.signatures import read_public


class OpenBundle(Printed):
    """A release as its data user received it.

    Attributes:
        sets: The synthetic sets as pandas frames; `sets[0]` is set 1, read when first used.
        tables: The published noisy tables as pandas frames, by their columns.
        statement: The content of `release.json`.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.sets = SyntheticSets(bundle)

    @property
    def folder(self) -> Path:
        """Folder of the bundle."""
        return self._bundle.folder

    @cached_property
    def tables(self) -> NoisyTables:
        """The published noisy tables as pandas frames, by their columns."""
        return NoisyTables(self._bundle)

    @cached_property
    def statement(self) -> Statement:
        """The content of `release.json`."""
        return Statement(json.loads((self.folder / STATEMENT).read_bytes()))

    @cached_property
    def _sources(self) -> Sources:
        return sources_of(self._bundle)

    def query(self, question: str, *, level: float = 0.95, sampling: bool = False) -> QueryAnswer:
        """Return an answer from the noisy tables, as `dp-release query` gives it.

        If the tables do not determine the answer, `determined` is False, and `reason` says why.

        Args:
            question: The question; `docs/query.md` has the language.
            level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
            sampling: Whether the intervals also contain the error of the file as a random sample;
                False by default.

        Raises:
            BadInput: if the text is not a question about this release.

        >>> import dp_core as dp
        >>> answer = dp.read_bundle("first").query("count by sex")
        >>> list(answer.frame.columns)
        ['sex', 'estimate', 'margin', 'low', 'high']
        >>> answer.to_json()["unit"]
        'records'
        """
        _check_text("question", question)
        _check_level(level)
        return answer_query(self._bundle, self._sources, question, level=level, sampling=sampling)

    def infer(
        self,
        formula: str,
        *,
        family: str | None = None,
        level: float = 0.95,
        naive: bool = False,
        weighted: bool = False,
    ) -> RegressionAnswer:
        """Return a regression on every set, combined, as `dp-release infer` gives it.

        Args:
            formula: The formula, such as `income ~ age + sex`.
            family: `linear`, `logistic`, `multinomial` or `poisson`; None (the default) to choose
                it by the outcome.
            level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
            naive: Whether to accept naive intervals if the release has one set; False by default.
            weighted: Whether to use the release's survey weights; False by default.

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
            self._bundle, formula, family=family, level=level, naive=naive, weighted=weighted
        )

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
        statement, schema = self.statement, self._bundle.claims.schema
        release, declared = statement["release"], self._bundle.declared
        return (
            Sentence(
                f"{release['title']} (release {release['name']}, version {release['version']})"
            ),
            Fact("Folder", str(self.folder)),
            Fact("Privacy", guarantee_words(statement)),
            Fact(
                "Tables",
                f"{len(self.tables):,} of counts; {len(self._bundle.measured):,} measurements",
            ),
            Fact("Sets", sets_words(statement)),
            *((Fact("Declared", "; ".join(declared)),) if declared else ()),
            Fact("Columns", ", ".join(schema.names)),
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
    (3, ['sex', 'age', 'region', 'income'])
    >>> bundle.tables["sex", "age"].head(3)[["sex", "age", "count"]].shape
    (3, 3)
    >>> bundle.statement["release"]["name"]
    'survey-2026'
    """
    return OpenBundle(reading.read_bundle(Path(folder)))


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"The {name} must be a text, not {type(text).__name__}.")
    plain_text(f"The {name}", text)


def _check_level(level: object) -> None:
    if not isinstance(level, Real):
        raise TypeError(f"The level must be a number, such as 0.95, not {level!r:.40}.")
