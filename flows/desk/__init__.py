"""The question desk: single questions about a confidential file, each a small release.

This room has no privacy code. Commands and services call `asking`; read it first.
`asked_question` reads a question and writes the release spec that answers it. `desk` opens, finds
and closes the desks of a home, `kept_questions` stores the admitted questions, and `desk_answers`
returns what a privacy officer sees of both. `own_process` makes the release of a question.
`service` answers over HTTP. Imports `answers`; the flow `answer-question` and the commands import
this room.
"""
