"""The commands of the question desk: `ask` for its users, `questions` for privacy officers."""
