"""The parts of benchmark.py."""
