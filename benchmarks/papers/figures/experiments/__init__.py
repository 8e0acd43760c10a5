"""What is run for the figures: one module for each paper."""
