"""The answers of the commands: for each, its values by JSON key and the page that shows them.

`dp_core.text.pages.answer` has the type that all commands return. `account_answers` and
`ledger_answers` are those of `ledger`, `release_answers` those of `run`, `status` and `look`. The
answers of `query`, `infer` and `verify` are in `dp_core`, since the library returns them too.
"""
