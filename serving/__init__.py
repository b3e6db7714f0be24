"""Batch prediction on one machine and on Beam; LiteRT files."""
