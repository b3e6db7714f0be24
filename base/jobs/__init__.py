"""One engine for batch jobs: files in, files out, and the same bytes always.

    sources --chunks--> chunks --map--> values by bucket --reduce--> buckets
    buckets --publish--> output files

A tool says what its chunks are, and how to map and reduce them (steps.py). On
one machine worker processes do that (engine.py), on many Apache Beam does
(pipeline.py), with the same calls. A run that was killed resumes with what is
not complete yet (run.py); tools with an engine of their own use that part
alone:

    job = Job(outputs, folder, "predictions", "output_dir", flags)
    with run.open_run(job) as this_run:       # locks, refuses, cleans up
        for index in this_run.todo:
            with run.publish(job.target(index)) as (file, entry):
                file.write(...)
                entry["counts"] = {...}       # anything that is JSON
        this_run.finish(total)                # keeps all entries, tidies up
"""
