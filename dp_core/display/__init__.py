"""How an answer is shown: as JSON to a program, as text or HTML to a person.

Imports only `errors`. Read `answer` first: the base class of what a command returns.
"""
