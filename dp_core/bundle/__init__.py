"""The published folder: written, read and verified.

Imports `plan` and below. `published` lists everything that a bundle is made from. `files` holds the
data files and the codebook; `quality` computes how reliable sets and tables are;
`statement` is `release.json`; `report` is `report.html`; `verification` checks a bundle from its
own files. `writer` writes a bundle and `reading` opens one.
"""
