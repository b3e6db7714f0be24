"""Tasks: what each reads, predicts and is scored by."""
