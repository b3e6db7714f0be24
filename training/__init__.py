"""The training loop of all scripts: step, devices, compilation, reports."""
