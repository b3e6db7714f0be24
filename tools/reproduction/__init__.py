"""The paper's ablations as lists of commands: plan, run, tables, pictures.

    scales.toml --scales.py--> sizes, steps, rates
    scale, data --experiments.py, steps.py--> plan: commands in order
    plan --run.py--> finished steps --tables.py, plots.py, report.py--> results

It runs the scripts of this project as child processes and does not import
TensorFlow.
"""
