"""The HTTP service of questions: tokens, limits, the endpoints, and the queue that answers.

The process that listens holds no confidential row: it reads the desks and the ledger, admits
questions, and shows what was answered. Each release is made in its own process
(`answerer`). Read `tokens` and `gate` first: they check a request before an endpoint sees
it. This room may import `flows.desk` and the rooms below.
"""
