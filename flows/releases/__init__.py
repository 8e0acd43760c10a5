"""What the flows share: checks before a release starts, records of runs, and specs from templates.

Read `start_check` first, then `opening`.
"""
