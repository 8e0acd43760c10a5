"""Compiled loops, in a room of their own so that finding a method does not load the compiler."""
