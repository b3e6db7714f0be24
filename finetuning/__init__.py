"""Runs of tasks: the runner, flags, sweeps, distillation."""
