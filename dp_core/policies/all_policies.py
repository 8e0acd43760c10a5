"""The policies of every ledger, in the order in which they are asked."""

from __future__ import annotations

from dp_core.accounts.ledger_position import broken_by_statement
from dp_core.kernel.ledger.rules import Policy
from dp_core.policies.account_balance import broken_by_period, periods_after
from dp_core.policies.approval import broken_by_gate, gate_after
from dp_core.policies.approved_plans import broken_by_plan
from dp_core.policies.refused_attempts import attempts_after, broken_by_attempts
from dp_core.policies.tried_schemas import broken_by_schemas, tried_after

POLICIES = (
    Policy("plans that are paid for", broken_by_plan, lambda _entry, _book: {}),
    Policy("what is stated of the ledger", broken_by_statement, lambda _entry, _book: {}),
    Policy("approval before publication", broken_by_gate, gate_after, ("gate/",)),
    Policy("refused attempts", broken_by_attempts, attempts_after, ("attempts/", "examination/")),
    Policy("tried schemas", broken_by_schemas, tried_after, ("schemas/", "schema of ")),
    Policy("budget periods", broken_by_period, periods_after, ("period/",)),
)
