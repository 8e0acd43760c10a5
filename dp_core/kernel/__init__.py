"""What must be right so that epsilon is right; it imports nothing else of the project.

The kernel reads plain documents (JSON) and believes no object of another room: a document is
checked when it is read, and what a release enforces and states comes from it. Read `document` (what
a release promises and how it codes the file), then `coding` (values to codes). `errors` has what
can go wrong, and `codes` the types of codes.
"""
