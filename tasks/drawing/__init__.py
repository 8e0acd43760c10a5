"""The pieces of synthetic sets, drawn on threads. Public values only."""
