"""Errors, files, processes and clusters: what knows nothing of BERT."""
