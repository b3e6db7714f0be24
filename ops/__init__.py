"""Arithmetic: elementwise operations, losses, and skipping the padding."""
