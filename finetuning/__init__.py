"""Runs of tasks: the runner and its flags."""
