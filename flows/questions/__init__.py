"""The question desk: single questions about a confidential file, each a small release.

No privacy code is here. `asking` is what commands and services call; read it first.
`asked_question` reads a question and says which columns it needs. `question_spec` writes the
release spec that answers it. `desk` has the desks that are open in a home, `kept_questions` the
questions that were admitted, and `desk_answers` what an officer sees of both. `own_process` makes
the release of a question. Imports `answers`; the flow `answer-question` and the commands import
this room.
"""
