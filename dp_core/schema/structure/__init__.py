"""What the schema makes certain: structural zeros, public totals, rules on members.

Public. Imports the kernel's tables only.
"""
