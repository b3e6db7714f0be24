"""Batch prediction: texts of any number in, JSON lines with their ids out.

    inputs --data.py--> windows of some thousand inputs
    window --tasks.py--> rows of ids --batches.py--> batches of similar length
    batch --model.py--> outputs --tasks.py--> lines --outputs.py--> shards

run.py does this on one machine, on_beam.py with Apache Beam. Both call the
same functions on the same windows, so they write the same lines.
"""
