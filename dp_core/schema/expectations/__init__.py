"""What is expected of the file, as a suite of Great Expectations. Public.

It does not import the library.

`offered` is what a team may state in the schema, `suite` the suite that follows from a schema.
Imports the rest of `schema` and `text`.
"""
