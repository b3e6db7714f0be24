"""Text to records of pre-training."""
