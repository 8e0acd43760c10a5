"""Opens files, object stores and database tables as a checked confidential source, and as codes.

Read `open_input` first.
"""
