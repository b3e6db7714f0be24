"""Summarize a run in corpus.json and in lines of text; warn of mistakes."""

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from base.jobs.run import Run

from corpus.documents import HELDOUT, TRAIN
from corpus.items import TEXT, Problem

# Reasons of problems: files, pages, lines or texts that cannot be read. Each is
# named in a warning. Of a refused one the libraries find no text or sentence.
REASONS = tuple(
    """unreadable_file damaged_file broken_item refused_page refused_text
    not_utf8 too_long""".split()
)

# Reasons for dropping a page or text that can be read.
DROPPED = tuple(
    """other_namespaces redirects not_wikitext disambiguations without_text
    too_short duplicates""".split()
)

_READ = ("pages", "json_lines", "rows", "texts")

_SIZES = ("documents", "sentences", "words", "characters", "bytes")


def problem_lines(result: dict[str, Any]) -> list[str]:
    """Return the messages of the first problems of a chunk or of all."""
    return [Problem(*problem).line() for problem in result["problems"]]


def in_words(counts: Mapping[str, int], names: Iterable[str]) -> str:
    """Return the counts of some names that are not 0, in words."""
    return "; ".join(
        f"{counts[name]:,} {name.replace('_', ' ')}"
        for name in names
        if counts.get(name)
    )


def make_report(
    run: Run, outputs: dict[str, list[str]], output_dir: str
) -> dict[str, Any]:
    """Return what corpus.json says of the documents of a run.

    It does not depend on the number of workers or on how often a run was
    interrupted. `outputs` are the paths of the files by split.
    """
    counts = collections.Counter(run.total["counts"])
    splits = {}
    for split, paths in outputs.items():
        sums, files = collections.Counter(), {}
        for path in paths:
            entry = run.entries[path]
            sums.update({**entry["counts"], "bytes": entry["bytes"]})
            files[path.removeprefix(output_dir).lstrip("/")] = {
                "bytes": entry["bytes"],
                "documents": entry["counts"].get("documents", 0),
            }
        sizes = {name: sums.pop(name, 0) for name in _SIZES}
        splits[split] = {**sizes, "files": files}
        counts.update(sums)  # duplicates
    read = ("articles", "input_bytes", *_READ)
    tables = {"read": read, "dropped": DROPPED, "problems": REASONS}
    return {
        title: {name: counts[name] for name in names if counts[name]}
        for title, names in tables.items()
    } | {
        "first_problems": problem_lines(run.total),
        "sentences_dropped": _with_prefix(counts, "sentences_"),
        "removed_from_pages": _with_prefix(counts, "removed_"),
        **splits,
    }


def _with_prefix(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): number
        for name, number in sorted(counts.items())
        if name.startswith(prefix)
    }


def summarize(report: dict[str, Any]) -> list[str]:
    """Return the lines of the closing summary."""
    read = report["read"]
    line = in_words(read, _READ).replace("; ", ", ") or "nothing"
    if "pages" in read:
        line += f" (articles: {read.get('articles', 0):,})"
    megabytes = read.get("input_bytes", 0) / 1e6
    lines = [f"read: {line}; {megabytes:,.1f} MB decompressed"]
    titles = "dropped problems removed_from_pages sentences_dropped".split()
    for title in titles:
        if counts := report[title]:
            lines.append(
                f"{title.replace('_', ' ')}: {sum(counts.values()):,} "
                f"({in_words(counts, counts)})"
            )
    for split in (TRAIN, HELDOUT):
        sizes = report[split]
        if files := sizes["files"].values():
            empty = sum(not file["documents"] for file in files)
            lines.append(
                f"{split}: {sizes['documents']:,} documents, "
                f"{sizes['sentences']:,} sentences, {sizes['words']:,} words, "
                f"{sizes['characters']:,} characters in {len(files)} files"
                + (f", {empty} of them empty" if empty else "")
            )
    return lines


def find_warnings(report: dict[str, Any]) -> list[str]:
    """Return a line for each count that makes a mistake likely."""
    found = []
    if problems := sum(report["problems"].values()):
        found.append(
            f"{problems:,} parts of the input could not be used; corpus.json "
            "names the first ones, and --strict makes them errors"
        )
    train, heldout = report[TRAIN], report[HELDOUT]
    if heldout["files"] and not heldout["documents"]:
        found.append(
            "no document was held out: --heldout_fraction="
            f"{report['flags']['heldout_fraction']:g} of "
            f"{train['documents']:,} documents are too few"
        )
    kinds = {entry["kind"] for entry in report["inputs"].values()}
    documents = train["documents"] + heldout["documents"]
    separator = report["flags"]["document_separator"]
    if kinds == {TEXT} and documents == 1 and separator != "blank_line":
        found.append(
            "there is only one document: if blank lines separate documents, "
            "give --document_separator=blank_line"
        )
    return found
