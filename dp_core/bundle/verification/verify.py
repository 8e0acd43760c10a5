"""Verification of a bundle: files, receipts and privacy arithmetic, from the bundle alone.

It shows that the folder is complete, that its receipts form a chain, and that the noise they state
implies the claimed guarantee. It cannot show that the noise was drawn as stated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dp_core.accounts.chain_audit import first_bad_link
from dp_core.accounts.signatures import fingerprint, is_signed
from dp_core.bundle.files.codebook import MARGINALS
from dp_core.bundle.files.marginals_file import Measured
from dp_core.bundle.statement.release_json import (
    FORMAT_NAME,
    FORMAT_VERSION,
    IN_MEMORY,
    STATEMENT,
    render,
)
from dp_core.bundle.verification.charges_check import (
    check_charges,
    check_measurements,
    check_tables,
)
from dp_core.bundle.verification.claims import Claims, Undecided, program_of, read_claims
from dp_core.bundle.verification.examined import Examined
from dp_core.bundle.verification.figures_check import check_figures, check_rules
from dp_core.bundle.verification.files_check import (
    check_copies,
    check_expectations,
    check_files,
    check_sets,
    files_in,
)
from dp_core.bundle.verification.statement_check import (
    check_decision,
    check_guarantee,
    check_statement,
)
from dp_core.errors import BadInput
from dp_core.kernel.canonical import digest
from dp_core.kernel.cost.composition import Composition, Terms
from dp_core.kernel.errors import GARBAGE
from dp_core.methods.bin_density.fitting import agree, may_have_density, with_densities
from dp_core.plan.chosen_domain import choose
from dp_core.schema.definition import Schema
from dp_core.text.documents.similar_paths import similar_path
from dp_core.text.pages.answer import Answer
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Page, Sentence

if TYPE_CHECKING:
    import pandas as pd

_MOST_BYTES = 1 << 30
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: Fixed short name.
        passed: Whether the check passed.
        sentence: What was found; names the file or receipt that failed.
        decided: Whether this program could decide the check; an undecided check has not passed.
    """

    name: str
    passed: bool
    sentence: str
    decided: bool = True

    @property
    def mark(self) -> str:
        """`ok`, `FAIL`, or `?` for an undecided check."""
        if self.passed:
            return "ok"
        return "FAIL" if self.decided else "?"


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Answer):
    """All checks of one bundle.

    Attributes:
        folder: The bundle.
        checks: Results in the order of the checks.
    """

    folder: Path
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """Checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def undecided(self) -> bool:
        """Whether no fault was found, but this program could not decide every check."""
        return not self.passed and not any(check.decided for check in self.failures)

    @property
    def exit_code(self) -> int:
        """0 if it passed, 1 if a check failed, 2 if only undecided checks remain."""
        if self.passed:
            return 0
        return BadInput.exit_code if self.undecided else 1

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if self.undecided:
            words = "CANNOT be verified with this version of dp-release"
        else:
            words = "verifies" if self.passed else "does NOT verify"
        return f"The bundle {self.folder} {words}."

    @property
    def frame(self) -> pd.DataFrame:
        """The checks: one row for each, with `name`, `passed`, `decided` and `detail`."""
        import pandas as pd

        return pd.DataFrame(self.to_json()["checks"])

    def to_json(self) -> dict[str, Any]:
        """Return the checks; `decided` is false if this version cannot decide one."""
        return {
            "folder": str(self.folder),
            "passed": self.passed,
            "checks": [
                {
                    "name": check.name,
                    "passed": check.passed,
                    "decided": check.decided,
                    "detail": check.sentence,
                }
                for check in self.checks
            ],
        }

    def page(self) -> Page:
        """Return the checks in their order, and the verdict."""
        checks = (
            Fact(check.mark, f"{check.name}: {check.sentence}", warns=not check.passed)
            for check in self.checks
        )
        return *checks, Sentence(self.verdict, warns=not self.passed)


def verify(
    folder: Path,
    *,
    trusted: Collection[str] = (),
    measurements: Path | None = None,
    more_files: bool = False,
) -> Verification:
    """Return the results of all checks of a bundle.

    Args:
        folder: The bundle.
        trusted: Public keys of the ledger from another source; one of them must have signed the
            statement. Empty: any key, or none.
        measurements: Bundle of the earlier release whose noisy tables this one uses; None (the
            default) to check what this bundle states about that release only.
        more_files: Whether the folder may hold files that do not belong to the release; False by
            default.

    Raises:
        BadInput: if `folder` or `measurements` is not a folder that contains a statement.
    """
    first = _first_failure(measurements, trusted) if measurements is not None else None
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise BadInput(
            f"{folder} {what}; name the folder of a release (with {STATEMENT})."
            f"{similar_path(folder, Path.is_dir)}"
        )
    if not (folder / STATEMENT).is_file():
        if (folder / IN_MEMORY).is_file():
            raise BadInput(
                f"{folder} holds a release made in memory from public data, not a bundle: it has no"
                f" receipts, so there is nothing to verify. {IN_MEMORY} describes it."
            )
        raise BadInput(f"{folder} is not a release: it contains no {STATEMENT}.")
    try:
        found = files_in(folder)
    except OSError as error:
        raise BadInput(f"{folder} cannot be read ({error.strerror}).") from None
    document = _attempt("statement", lambda: _read_statement(folder / STATEMENT))
    if isinstance(document, Check):
        return Verification(folder, (document,))
    version = document["format"]["version"]
    checks = [Check("statement", True, f"{STATEMENT} is complete, format {version}.")]
    checks.append(_guard("files", lambda: check_files(folder, found, document, more=more_files)))
    claims = _attempt("receipts", lambda: read_claims(document))
    if isinstance(claims, Check):
        return Verification(folder, (*checks, claims))
    bundle = Examined(folder, document, claims)
    checks.append(_guard("receipts", lambda: _receipts(claims)))
    checks.append(_guard("ledger", lambda: _ledger(claims)))
    checks.append(_guard("signature", lambda: _signature(claims, trusted)))
    checks.append(_guard("wording", lambda: check_statement(bundle)))
    checks.append(_guard("copies", lambda: check_copies(bundle)))
    checks.append(_guard("guarantee", lambda: check_guarantee(claims.payer)))
    checks.append(_guard("charges", lambda: check_charges(claims.payer)))
    checks += _tables(bundle)
    if claims.earlier is not None or measurements is not None:
        checks.append(
            _guard("measurements", lambda: check_measurements(folder, claims, measurements, first))
        )
    checks.append(_guard("checks", lambda: check_figures(bundle)))
    checks.append(_guard("decision", lambda: check_decision(bundle)))
    checks.append(_guard("sets", lambda: check_sets(bundle)))
    schema = claims.schema
    if schema.rules or schema.zeros or schema.member_rules or schema.nested is not None:
        checks.append(_guard("rules", lambda: check_rules(bundle)))
    checks.append(_guard("expectations", lambda: check_expectations(bundle)))
    return Verification(folder, tuple(checks))


def _first_failure(folder: Path, trusted: Collection[str]) -> BadInput | None:
    """Return the first fault of a bundle, or what cannot be decided; None if it verifies."""
    failures = sorted(verify(folder, trusted=trusted).failures, key=lambda each: not each.decided)
    kinds = ((BadInput if each.decided else Undecided)(each.sentence) for each in failures)
    return next(kinds, None)


def _attempt(name: str, make: Callable[[], _Result]) -> _Result | Check:
    """Return what a function makes, or a failed check if it cannot be made."""
    try:
        return make()
    except BadInput as error:
        return Check(name, False, error.message, decided=not isinstance(error, Undecided))
    except OSError as error:
        return Check(name, False, f"A file of the release cannot be read ({error.strerror}).")
    except GARBAGE as error:
        what = f"missing {error}" if isinstance(error, KeyError) else type(error).__name__
        return Check(name, False, f"{STATEMENT} does not have the expected form ({what}).")


def _guard(name: str, check: Callable[[], str | tuple[str, ...]]) -> Check:
    """Return a check's finding as a `Check`: a text passed, a tuple lists what failed."""
    finding = _attempt(name, check)
    if isinstance(finding, Check):
        return finding
    if isinstance(finding, str):
        return Check(name, True, finding)
    more = f" And {len(finding) - 3} more." if len(finding) > 3 else ""
    return Check(name, False, " ".join(finding[:3]) + more)


def _read_statement(path: Path) -> dict[str, Any]:
    """Return a statement of this format whose checksum matches.

    Raises:
        BadInput: if it is anything else; `Undecided` if it has another format.
        Exception: one of `GARBAGE` if it does not have the expected form.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise BadInput(f"{STATEMENT} is too large to be a statement.")
        content = path.read_bytes()
        document: dict[str, Any] = json.loads(content.decode("utf-8"))
    except OSError as error:
        raise BadInput(f"{STATEMENT} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{STATEMENT} is not valid JSON: it is truncated or damaged.") from None
    name, version = document["format"]["name"], document["format"]["version"]
    if name != FORMAT_NAME:
        raise BadInput(f"{STATEMENT} is not the statement of a release.")
    if type(version) is not int or version != FORMAT_VERSION:
        older = isinstance(version, int) and version < FORMAT_VERSION
        made_it = f"the dp-release that made it ({program_of(document)})"
        raise Undecided(
            f"{STATEMENT} has format version {version!r:.20}, but this program reads"
            f" {FORMAT_VERSION}; verify it with {made_it if older else 'a newer dp-release'}."
        )
    body = {key: value for key, value in document.items() if key != "sha256"}
    if digest(body) != document["sha256"] or render(document) != content:
        raise BadInput(f"{STATEMENT} was changed: its own checksum does not match.")
    return document


def _receipts(claims: Claims) -> str | tuple[str, ...]:
    wrong: list[str] = []
    broken = first_bad_link(claims.receipts)
    if broken:
        wrong.append(broken)
    if claims.receipts[-1].hash != claims.head:
        wrong.append(f"The last receipt is not the one that {STATEMENT} states as its head.")
    for row in claims.receipts:
        if row.release != claims.name or row.account != claims.account:
            wrong.append(f"Receipt {row.number} belongs to another release or account.")
    for what, value, stated in claims.hashes:
        if digest(value) != stated:
            wrong.append(f"The {what} does not have the hash that {STATEMENT} states.")
    if digest(claims.plan) != claims.reserve.body["plan"]:
        wrong.append("The plan is not the one that was reserved: its hash differs.")
    return tuple(wrong) or f"{len(claims.receipts)} receipts form one unbroken chain."


def _ledger(claims: Claims) -> str | tuple[str, ...]:
    wrong: list[str] = []
    if not claims.totals or claims.totals[0].account != claims.account:
        wrong.append("The settlement does not state the total of the account that paid.")
    for total in claims.totals:
        terms = Terms(
            cast(Composition, total.composition), total.epsilon, total.delta, total.own_delta
        )
        if not terms.promised(claims.payer.currency, *claims.enforced).within(terms.limit):
            wrong.append(f"The release costs more than account {total.account!r:.40} has in total.")
    accounts = " and ".join(repr(total.account) for total in claims.totals)
    return tuple(wrong) or f"The release is within the total of account {accounts}."


def _signature(claims: Claims, trusted: Collection[str]) -> str | tuple[str, ...]:
    wrong: list[str] = []
    receipts_by = claims.place.public_key if claims.place else None
    if not claims.receipts_signed:
        wrong.append("The stated signature of the last receipt is wrong.")
    signed_by, signature = claims.signature or (None, None)
    if signed_by is not None and not is_signed(signed_by, claims.message, signature):
        wrong.append(f"The stated signature of {STATEMENT} is wrong.")
    # The signer of the statement vouches for its receipts, even if another key signed those.
    if trusted and signed_by not in trusted:
        wrong.append(f"{STATEMENT} is not signed by the key that was given.")
    if wrong:
        return tuple(wrong)
    known = "the key that was given"
    if signed_by is None:
        if receipts_by is None:
            return "Nothing is signed: anyone who passed the release on could have remade it."
        return (
            "The receipts, the totals of the accounts and, through the commits, the noisy tables"
            f" are signed by {_key_text(receipts_by)}; the synthetic sets and the rest are not."
        )
    if not trusted:
        known = _key_text(signed_by)
    return f"{STATEMENT}, and through it every file, is signed by {known}."


def _key_text(public: str) -> str:
    return f"key {fingerprint(public)}; compare this fingerprint with one from the publisher"


def _tables(bundle: Examined) -> list[Check]:
    claims, measured = bundle.claims, _attempt("tables", lambda: bundle.measured)
    if isinstance(measured, Check):
        return [measured]
    found = [_guard("tables", lambda: check_tables(measured, claims.payer))]
    if claims.schema.private:
        found.append(_guard("domain", lambda: _domain(measured, claims.schema)))
    if claims.schema.coarse is not None:
        # Sets of a method on a grid are not drawn within bins, so there is nothing to recompute.
        if "densities" in bundle.document["method"]:
            sentence = f"{STATEMENT} states densities within bins, but the method draws on a grid."
            found.append(Check("densities", False, sentence))
    elif any(map(may_have_density, claims.schema.columns)):
        found.append(_guard("densities", lambda: _densities(measured, claims.schema)))
    return found


def _domain(measured: Sequence[Measured], schema: Schema) -> str | tuple[str, ...]:
    """Return that the noisy counts imply the published bins and levels, or for which not."""
    try:
        choices = choose(schema, measured)
    except ValueError:
        return (f"{MARGINALS} lacks the counts from which bins and levels are chosen.",)
    wrong = tuple(
        f"The {'levels' if column.levels else 'bins'} of {column.name!r:.40} in {STATEMENT}, or the"
        f" spread of values within them, do not follow from the noisy counts in {MARGINALS}."
        for column in schema.private
        if column.choice is None
        or (column.choice.codes, column.choice.pieces)
        != (choices[column.name].codes, choices[column.name].pieces)
    )
    columns = plural(len(choices), "column")
    return wrong or f"The bins and levels of {columns} follow from the noisy counts."


def _densities(measured: Sequence[Measured], schema: Schema) -> str | tuple[str, ...]:
    """Return that the noisy tables imply the stated densities, or for which columns not."""
    implied = with_densities(schema, measured)
    wrong = tuple(
        f"The density of {column.name!r:.40} within its bins in {STATEMENT} does not follow from"
        f" the noisy tables in {MARGINALS}."
        for column, other in zip(schema.columns, implied.columns, strict=True)
        if not agree(column.pieces, other.pieces)
    )
    stated = sum(column.pieces is not None for column in schema.columns)
    columns = plural(stated, "column")
    return wrong or f"The densities within the bins of {columns} follow from the noisy tables."
