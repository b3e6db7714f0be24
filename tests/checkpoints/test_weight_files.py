"""Weights in the original's format: read, compared, written."""
