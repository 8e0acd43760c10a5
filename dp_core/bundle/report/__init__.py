"""`report.html`: the release for readers, in one file that loads nothing from the network.

Read `page` first.
"""
