"""Methods compared on data that may be looked at: what is run, what is measured, how it is told."""
