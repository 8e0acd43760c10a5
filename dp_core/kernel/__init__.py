"""What must be right so that epsilon is right; it imports nothing else of the project.

The kernel reads plain documents (JSON): a document is checked when it is read, and what a release
enforces and states comes from it. Read in this order:

- `document` (what a release promises and how it codes the file) and `privacy` (neighbours, units);
- `coding` (values of the file to codes) and `counting` (codes to exact counts);
- `questions` (what may be asked, with the sensitivity of each), then `extensions` (questions that
  one method needs, each with its own proof);
- `mechanisms` (what each costs, and how it draws), `noise` (exact samplers) and `cost` (how costs
  add up);
- `ledger` (what an account may promise and spend, as a chain of entries);
- `requests` (a question becomes steps and a draw) and `kernel` (charge, draw, receipt).
"""
