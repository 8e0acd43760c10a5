"""What the commands do: run, resume, decide, abandon, draft, serve."""
