"""The published folder: written, read and verified.

Imports `spec` and below. `files` holds the parts of the folder; `statement` is `release.json`;
`report` is `report.html`; `verification` checks a bundle from its own files. `writer` writes a
bundle and `reading` opens one.
"""
