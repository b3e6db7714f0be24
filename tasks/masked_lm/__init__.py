"""Fill the [MASK]s of sentences."""
