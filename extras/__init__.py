"""What tasks and training do without; it changes them by their hooks."""
