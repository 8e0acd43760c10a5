"""Files, object stores and database tables, as a checked confidential source and as codes.

Read `opened_input` first.
"""
