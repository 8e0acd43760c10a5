"""The release end to end, and the command line."""
