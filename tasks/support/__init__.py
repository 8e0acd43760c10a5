"""What the rooms of `tasks` share: a run's folder, Dask clusters, refusals, lazy imports."""
