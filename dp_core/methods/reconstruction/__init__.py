"""From measurements to a model; one method, one file."""
