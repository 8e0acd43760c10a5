"""Opens files, objects and database tables as a confidential source, and writes their codes.

Read `open_input` first.
"""
