"""Exported models: the tokenizer in the graph, and SavedModels of strings."""
