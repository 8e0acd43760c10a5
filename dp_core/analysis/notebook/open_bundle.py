"""A bundle that was opened: what `dp_core.read_bundle` returns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from dp_core.analysis.notebook.open_release import OpenRelease
from dp_core.analysis.notebook.statement import Statement, guarantee_words
from dp_core.bundle import reading
from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.bundle.verification.verify import Verification, verify
from dp_core.text.pages.page import Fact, Page, Sentence
from dp_core.wall.ledger.signatures import read_public


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
