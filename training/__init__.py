"""The one training loop, and what it runs on."""
