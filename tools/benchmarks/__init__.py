"""The parts of benchmark.py: what each one times, and the table they fill."""
