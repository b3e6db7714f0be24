"""TFRecord files: write, read, batch and cache them."""
