"""Sentences and sentence pairs: data, model, scores, export."""
