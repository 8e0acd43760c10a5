"""The answers of the commands: frozen dataclasses that become JSON or a terminal view."""
