"""Compiled loops, apart so that looking up a method does not load the compiler."""
