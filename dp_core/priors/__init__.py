"""Public records become a prior: a published release, a public file or frames, in a schema's codes.

`prior_records` reads and matches them; `public_predictions` says what they predict. Here
the readers of `confidential` read public rows, so this room imports both sides, and holds nothing
that is not public. Imports `bundle`, `confidential`, `methods` and below. `public_data` and `tasks`
import it.
"""
