"""The pictures of the report, as inline SVG that needs no script.

Read `column_picture` first: what is shown of one column.
`heat_map` draws a value for every pair of columns; the internal comparison uses it too.
`pictures.css` has the colours of all pictures, in light, dark and print.
"""
