"""Save and resume a training run: weights, optimizer slots and step.

An output_dir holds `model.ckpt-<step>` for the last few saved steps, the file
`checkpoint` with their names, and `training_config.json`, which describes the
run, so that a command with another model or other data cannot continue it.
"""
