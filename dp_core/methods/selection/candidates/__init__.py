"""The candidates of selections, and their scores.

`pairs`, `parent_sets`, `query_sets` and `feature_choice` list candidates; `model_errors` and
`best_record` score them; `known_rows` reads the results measured before the choice. Imports
`budget`.
"""
