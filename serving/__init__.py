"""Batch prediction on one machine and on Beam; search; LiteRT files."""
