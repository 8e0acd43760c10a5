"""Opens files, objects and database tables as a confidential source.

Read `open_input` first.
"""
