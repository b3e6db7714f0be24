"""Keep track of what is complete, and continue a run that was killed.

A run may be killed at any moment. The same command, given again, then continues
where the first one stopped; a different command must not add its documents. So
two things lie in the output directory beside the text:

    .corpus.manifest.json  the fingerprint of the command, the counts of the
                           input, and size and counts of every text file that
                           is complete
    .corpus.scratch        a folder with the units (corpus/units.py) that are
                           complete; removed at the end
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from base import file_system, resuming

from corpus import units
from corpus.plan import Plan

# --- The manifest ------------------------------------------------------------


def read_manifest(plan: Plan) -> dict[str, Any]:
    """Return the manifest of earlier runs of this command, {} without one.

    Raises:
        UserError: the output files belong to a different command.
    """
    return resuming.read_manifest(
        plan.manifest,
        [*plan.all_files(), plan.report_file],
        plan.fingerprint,
        plan.scratch_dir,
        "output_dir",
        plan.output_dir,
    )


def write_manifest(plan: Plan, manifest: dict[str, Any]) -> None:
    """Replace the manifest of a run."""
    # Without indent, which would take a slow encoder: there may be a hundred
    # thousand input files in it, and it is written for every output file.
    with file_system.atomic_file(plan.manifest) as file:
        file.write(json.dumps(manifest).encode())


def files_to_do(plan: Plan, manifest: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the text files that are missing or not as in the manifest.

    Returns:
        (split, index in `plan.output_files[split]`) of each.
    """
    return [
        (split, index)
        for split, paths in plan.output_files.items()
        for index, path in enumerate(paths)
        if not resuming.is_complete(path, manifest["files"].get(path))
    ]


def folders(plan: Plan) -> set[str]:
    """Return the folders of the output files."""
    return {os.path.dirname(path) for path in plan.all_files()}


def remove_leftovers(plan: Plan) -> None:
    """Remove the temporary files of runs that were killed."""
    for path in (*plan.all_files(), plan.report_file, plan.manifest):
        file_system.remove_leftovers(path)


def discard(plan: Plan) -> None:
    """Remove manifest and scratch files of a run that has no document.

    Called after bad input, so that the user can mend the input and give the
    same command again.
    """
    resuming.empty_folder(plan.scratch_dir)
    file_system.remove(plan.manifest)


# --- The scratch folder ------------------------------------------------------


def finished_units(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield the results of the units 0, 1, ... that are complete.

    Ends before the first one that is not, or with the last one of the input.
    """
    index = 0
    while (result := units.unit_result(plan.scratch_dir, index)) is not None:
        yield result
        index += 1


def is_end(plan: Plan, end: list[int] | tuple[int, int]) -> bool:
    """Return whether a chunk with this `end` is the last one."""
    return end[0] >= len(plan.input_files)
