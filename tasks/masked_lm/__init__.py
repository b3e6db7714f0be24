"""Fill the [MASK]s of sentences, or score sentences."""
