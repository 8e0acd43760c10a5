"""What only a terminal needs: the `progress` of a run."""
