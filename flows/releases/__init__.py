"""What the flows share: whether a release may begin, how runs are remembered, specs from templates."""
