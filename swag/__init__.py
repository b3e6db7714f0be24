"""Multiple choice: data, model, export."""
