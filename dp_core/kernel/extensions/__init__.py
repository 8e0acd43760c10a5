"""Questions that one historical method needs, each with its own proof, one file each."""
