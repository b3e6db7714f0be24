"""Pre-training: model, heads, objectives and runs; data/ makes its records."""
