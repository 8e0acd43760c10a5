"""One run of one release: its home, folder, reservation and the state that its stages share.

Read `release_run` first.
"""
