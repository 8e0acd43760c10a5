"""One module per step, from the first on; a step that was released never changes."""
