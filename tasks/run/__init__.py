"""One run of one release: its home, its folder, its reservation, and what its stages share.

Read `release_run` first.
"""
