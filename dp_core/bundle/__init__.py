"""The published folder: statement, codebook, report, and their verification."""
