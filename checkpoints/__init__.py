"""Checkpoints in the original's format and in Hugging Face's."""
