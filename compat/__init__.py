"""The original's Python: names of google-research/bert over our functions.

A module here has the name of one of the original's and the names that ours
of that name lacks; `base.lazy` puts them there. docs/migration.md lists all.
"""
