"""Raw text of many kinds to one sentence per line, document by document."""
