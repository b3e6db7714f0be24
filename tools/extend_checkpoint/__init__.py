"""Adds words or positions to a model: python -m tools.extend_checkpoint."""
