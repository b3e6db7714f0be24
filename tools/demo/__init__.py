"""The corpus and the results of demo.py."""
