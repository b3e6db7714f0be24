"""Answers in a paragraph: data, windows, model, decoding, scores, export."""
