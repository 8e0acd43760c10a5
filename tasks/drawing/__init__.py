"""The pieces of synthetic sets, drawn on threads or on a cluster. Public values only."""
