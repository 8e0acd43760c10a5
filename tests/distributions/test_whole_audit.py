"""The whole audit: every preset, method and option, for every unit of privacy."""

from __future__ import annotations

import pytest

from dp_core.audit.audit_run import audit
from dp_core.audit.report import CLOSE, HOUSEHOLDS, UNITS, unit_name


@pytest.mark.full
@pytest.mark.slow
def test_the_whole_audit_asks_everything_and_finds_no_violation():
    findings = audit()
    assert findings.violations == []
    assert findings.unasked == ()
    assert findings.unmoved == ()
    assert findings.passed
    # What is not made is refused by its plan; no release ended amid its questions.
    assert [name for name in findings.refused if "made on" in name] == []
    # Most bounds are reached; a search that found nothing would find no error.
    ratios = [found.ratio for found in findings.closest.values()]
    assert sum(ratio >= CLOSE for ratio in ratios) > 0.7 * len(ratios)
    assert min(ratios) > 0.1
    assert {kind.unit for kind in findings.closest} == {
        unit_name(each) for each in (*UNITS, *HOUSEHOLDS)
    }
