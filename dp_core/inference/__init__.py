"""From m synthetic sets to one estimate with an honest interval."""
