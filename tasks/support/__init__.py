"""What the other rooms of `tasks` stand on: a run's folder, processors, and lazy package loading."""
