"""Vectors of frozen layers: which layers, and the files they go to."""
