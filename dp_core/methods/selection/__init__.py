"""Which marginals to measure; one method, one file."""
