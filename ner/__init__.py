"""Named entities: data, windows, model, scores, export."""
