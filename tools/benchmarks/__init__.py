"""The parts of tools.benchmark: what each one times, and its table."""
