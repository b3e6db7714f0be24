"""The paper's ablations as lists of commands: plan, run, tables, pictures.

    scales.toml --scales.py--> sizes, steps, rates
    scale, data --experiments.py, steps.py--> plan: commands in order
    plan --run.py--> finished steps --tables.py, plots.py, report.py--> results

paper.py has the paper's numbers and claims. The scripts of this project run as
child processes, and TensorFlow is not imported.
"""
