"""Answers from the noisy tables and sets of a release, with margins of error. Post-processing.

Read `question` first, then `question_grammar` (text to question), `asked_counts` (question to sums
of counts), and `answering` with `term_intervals` and `distribution_answers` (estimates, intervals).
`query_answer` is what the command and the library return. The estimates themselves are in
`dp_core.methods.reconstruction.estimates` (`pooled_functionals`, `functional_noise`). This room
reads a bundle; it may import `bundle` and the rooms below it, never `confidential` or the noise.
"""
