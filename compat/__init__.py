"""The original's Python: names of google-research/bert over our functions.

A module here is called like one of the original's, and has the names that our
module of this name lacks; `base.lazy` adds them to it. docs/migration.md lists
all.
"""
