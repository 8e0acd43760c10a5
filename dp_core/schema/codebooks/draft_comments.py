"""Comments that drafts of schemas have in common, whatever they were drafted from."""

ROWS_ABOUT = """\
# rows_about: 20000      # approximate number of rows, if it is public: `plan` then forecasts the
#                        # error of tables and sets (as TVD) and the memory that the release needs
"""
"""Comment of every draft on the number of rows, which a draft never reads."""
