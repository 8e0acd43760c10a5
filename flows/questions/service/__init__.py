"""The HTTP service of questions: tokens, limits, the endpoints, and the queue that answers.

The process that listens holds no confidential row: it reads the desks and the ledger, admits
questions, and shows what was answered. Each question is answered in a process of its own
(`answering_process`). Read `tokens` and `gate` first: what a request must pass before an endpoint
sees it. It may import `flows.questions` and the rooms below.
"""
