"""Find named entities: a tag per word, fine-tuned or on frozen features."""
