"""The candidates of selections, and their scores.

`pairs` and `feature_choice` list candidates, `private_looks` and `model_errors` score them, and
`known_rows` reads the results measured before the choice. Imports `budget`.
"""
