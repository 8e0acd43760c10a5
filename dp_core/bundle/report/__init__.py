"""`report.html`: the release for readers, in one file that loads nothing from the network.

Read `page` first. `example_python.jinja` and `example_r.jinja` are the code that the report shows.
"""
