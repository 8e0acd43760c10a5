"""Declared analyses: regressions that a release measures directly, without bins.

A spec names the regressions. For each, the release measures noisy sums over the records, from the
numbers' own values: the second moments of the columns, and the scores of the regression at public
coefficients. This room is post-processing only; the sums themselves are in
`dp_core.kernel.questions.regressions.shortened`.

Read `declared_regression` (what is declared), `whitening` (scales), `declared_questions` (what is
asked) and `declared_answers` (estimates and their covariance), in this order.
"""
