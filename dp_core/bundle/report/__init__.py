"""`report.html`: the release for people, in one file that loads nothing from the network.

Read `page` first.
"""
