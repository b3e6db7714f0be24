"""Masked LM and next sentence prediction: data, model, export."""
