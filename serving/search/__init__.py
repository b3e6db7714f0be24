"""Search over sentences: the index of a file's vectors, and its answers."""
