"""Public values about codes, tables and records that the kernel does not need.

Imports the kernel only. `table_plan` chooses which tables are counted.
"""
