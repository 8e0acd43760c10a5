"""Shared tools of `tasks`: a run's folder, processors, lazy package loading."""
