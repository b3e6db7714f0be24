"""Classify sentences and sentence pairs: GLUE, XNLI and own files."""
