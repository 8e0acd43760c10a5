"""The answer of `dp-release verify`: the checks of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_core.errors import BadInput
from flows.answers.answer import Answer

if TYPE_CHECKING:
    from dp_core.bundle.verification.verify import Verification


@dataclass(frozen=True, slots=True)
class CheckResult(Answer):
    """One check; `decided` is false if this version of the program cannot decide it."""

    name: str
    passed: bool
    decided: bool
    detail: str


@dataclass(frozen=True, slots=True)
class BundleCheck(Answer):
    """All checks of a bundle, and whether it passed them."""

    folder: str
    passed: bool
    checks: tuple[CheckResult, ...]

    @property
    def exit_code(self) -> int:
        """0 if it passed, 1 if a check failed, 2 if only undecided checks remain."""
        if self.passed:
            return 0
        found_fault = any(check.decided and not check.passed for check in self.checks)
        return 1 if found_fault else BadInput.exit_code


def bundle_check(folder: str, found: Verification) -> BundleCheck:
    """Return the result of a verification."""
    checks = tuple(
        CheckResult(item.name, item.passed, item.decided, item.sentence) for item in found.checks
    )
    return BundleCheck(folder, all(check.passed for check in checks), checks)
