"""Evaluation of synthetic sets by the scores of the field and by attacks, as values and as a page.

It is given datasets, the real one too, and opens nothing. `release_scores` computes the figures of
a single table and those of linked tables. `evaluation_page` says what each number
means, and makes the page that staff ask for. The section of scores is also part of the
internal utility page (`lab.comparison`).
"""
