"""What a run does besides training, between the calls of its step."""
