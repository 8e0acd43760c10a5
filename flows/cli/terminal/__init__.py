"""How the answers of `flows.answers` look on a terminal.

One file per kind of answer (`release_views` has `status`); `progress` shows a run while it lasts.
"""
