"""The answer of `dp-release audit`: how close neighbouring files came to each charged bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dp_core.audit.report import CLOSE, Findings, Kind
from dp_core.text.pages.answer import Answer


@dataclass(frozen=True, slots=True)
class AuditedBound(Answer):
    """One bound of one kind of question, and the two files that came closest to it."""

    question: str
    mechanism: str
    bound: str
    unit: str
    ratio: float
    reached: bool
    charges: int
    compared: int
    where: str
    asked: Mapping[str, Any]
    files: Sequence[Sequence[Sequence[int]]]


@dataclass(frozen=True, slots=True)
class AuditAnswer(Answer):
    """What an audit found."""

    passed: bool
    complete: bool
    releases: int
    charges: int
    compared: int
    bounds: Sequence[AuditedBound]
    violations: Sequence[str]
    unasked: Sequence[str]
    unmoved: Sequence[str]
    not_made: Sequence[str]

    @property
    def exit_code(self) -> int:
        """1 if a bound was exceeded, or a complete audit left something out."""
        return 0 if self.passed else 1


def audit_answer(findings: Findings) -> AuditAnswer:
    """Return what an audit found, by question."""
    ordered = sorted(findings.closest.items(), key=lambda item: _order(item[0]))
    bounds = [
        AuditedBound(
            question=kind.question,
            mechanism=kind.mechanism,
            bound=kind.bound,
            unit=kind.unit,
            ratio=round(found.ratio, 6),
            reached=found.ratio >= CLOSE,
            charges=found.charges,
            compared=found.compared,
            where=found.where,
            asked=found.asked,
            files=found.files,
        )
        for kind, found in ordered
    ]
    return AuditAnswer(
        passed=findings.passed,
        complete=findings.complete,
        releases=findings.releases,
        charges=findings.charges,
        compared=sum(found.compared for found in findings.closest.values()),
        bounds=bounds,
        violations=findings.violations,
        unasked=findings.unasked,
        unmoved=[f"{kind.question} ({kind.mechanism}, {kind.unit})" for kind in findings.unmoved],
        not_made=findings.refused,
    )


def _order(kind: Kind) -> tuple[str, ...]:
    return kind.question, kind.mechanism, kind.bound, kind.unit
