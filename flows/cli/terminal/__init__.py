"""What only a terminal needs: the `console` of all answers, and the `progress` of a run."""
