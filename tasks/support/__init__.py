"""What the other rooms of `tasks` stand on: a run's folder, processors, lazy package loading."""
