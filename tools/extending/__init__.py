"""Parts of extend_checkpoint.py: new words and longer texts for a model."""
