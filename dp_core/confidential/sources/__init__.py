"""Sources beside files: frames in memory, and the data of a schema from the sources of its parts.

Read `frame_source`, then `input_parts`.
"""
