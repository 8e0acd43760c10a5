"""A question desk: the terms under which single questions about a file are answered, and its file.

Read `question_desk` first; `desk_reader` reads `questions.yaml` into it.
"""
