"""SavedModels that take strings: the tokenizer in the graph, the signatures."""
