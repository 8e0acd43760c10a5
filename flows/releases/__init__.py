"""What the flows share: may a release begin, which runs there were, and specs from templates."""
