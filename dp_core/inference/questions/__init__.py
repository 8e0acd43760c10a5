"""The language of questions about counts, read by `query`, and by specs that declare statistics.

Read `question` first, then `question_grammar` (text to question); `between_waves` reads changes.
"""
