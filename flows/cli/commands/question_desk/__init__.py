"""The commands of the question desk: `desk ask` for its users, the others for privacy officers."""
