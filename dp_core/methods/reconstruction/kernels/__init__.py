"""Compiled loops, in their own folder so that finding a method does not load the compiler."""
