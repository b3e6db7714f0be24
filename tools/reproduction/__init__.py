"""The paper's ablations as lists of commands: plan, run, tables, report.

    scales.toml --scales.py--> sizes, steps, rates
    scale, data --experiments.py, steps.py--> plan: commands in order
    plan --run.py--> finished steps --tables.py, report.py--> results

paper.py has the paper's numbers. The scripts of this project run as child
processes, and TensorFlow is not imported.
"""
