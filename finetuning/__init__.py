"""Flags, jobs, runs and sweeps: shared by all fine-tuning scripts."""
