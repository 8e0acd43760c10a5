"""What the papers print: every figure and table, how it is drawn, and what is claimed of it."""
