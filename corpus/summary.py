"""Summarize a run in corpus.json and in lines of text; warn of mistakes."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from base.errors import InputError

from corpus.documents import HELDOUT, TRAIN
from corpus.items import DUMP, TEXT, Problem

if TYPE_CHECKING:
    from base.jobs.run import Run

# Reasons of problems: what cannot be read, and is named in a warning.
REASONS = {
    "unreadable_file": "files that cannot be read",
    "damaged_file": "files damaged in part",
    "broken_item": "pages, lines or rows that are broken",
    "refused_page": "pages that the parser refuses",
    "refused_text": "texts whose sentences cannot be found",
    "not_utf8": "lines or texts that are not UTF-8",
    "too_long": "longer than --max_document_mb",
}

# Reasons for dropping a page or text that can be read.
DROPPED = {
    "other_namespaces": "pages of other namespaces",
    "redirects": "redirects",
    "not_wikitext": "pages that are not wikitext",
    "disambiguations": "disambiguation pages",
    "without_text": "without text",
    "too_short": "shorter than --min_document_chars",
    "duplicates": "duplicates",
    "too_short_without_repeated_lines": "too short without repeated lines",
}

# What wikitext.to_sentences counts: sentences that lost words, by reason.
_DROPPED_SENTENCES = "wikitext_sentences_"
# And parts of pages, by kind.
_REMOVED = "wikitext_"

_SIZES = ("documents", "sentences", "words", "characters", "bytes")

_READ = {
    "pages": "pages",
    "json_lines": "JSON lines",
    "rows": "rows",
    "texts": "texts",
}

# --- corpus.json -------------------------------------------------------------


def problems_of(result: dict[str, Any]) -> list[Problem]:
    """Return the first problems of a chunk, or of all chunks."""
    return [Problem(*problem) for _, _, problem in result["problems"]]


def make_report(
    done: Run, outputs: dict[str, list[str]], output_dir: str
) -> dict[str, Any]:
    """Return what corpus.json says of the documents of a run.

    It has nothing in it that depends on the number of workers or on how often
    a run was interrupted. `outputs` are the paths of the files by split.
    """
    counts = collections.Counter(done.total["counts"])
    splits = {}
    for split, paths in outputs.items():
        sums, files = collections.Counter(), {}
        for path in paths:
            entry = done.entries[path]
            sums.update(entry["counts"])
            sums["bytes"] += entry["bytes"]
            files[path.removeprefix(output_dir).lstrip("/")] = {
                "bytes": entry["bytes"],
                "documents": entry["counts"].get("documents", 0),
            }
        for name in (
            "duplicates",
            "repeated_lines",
            "too_short_without_repeated_lines",
        ):
            counts[name] += sums.pop(name, 0)
        sizes = {name: sums[name] for name in _SIZES}
        splits[split] = {**sizes, "files": files}
    removed, dropped_sentences = {}, {}
    for name, number in sorted(counts.items()):
        if name.startswith(_DROPPED_SENTENCES):
            name = name.removeprefix(_DROPPED_SENTENCES)
            dropped_sentences[name] = number
        elif name.startswith(_REMOVED):
            removed[name.removeprefix(_REMOVED)] = number
    return {
        "read": _some(counts, ("articles", "input_bytes", *_READ)),
        "dropped": _some(counts, DROPPED),
        "problems": _some(counts, REASONS),
        "first_problems": [p.line() for p in problems_of(done.total)],
        "sentences_dropped": dropped_sentences,
        "removed_from_pages": removed,
        "repeated_lines": counts["repeated_lines"],
        **splits,
    }


def _some(counts: collections.Counter, names: Iterable[str]) -> dict[str, int]:
    """Return the counts of these names that are not 0."""
    return {name: counts[name] for name in names if counts[name]}


# --- The closing summary -----------------------------------------------------


def summarize(report: dict[str, Any], speed: str) -> list[str]:
    """Return the lines of the closing summary; see `generation.generate`."""
    read = report["read"]
    line = ", ".join(
        f"{read[name]:,} {what}" for name, what in _READ.items() if name in read
    )
    if "pages" in read:
        line += f" (articles: {read.get('articles', 0):,})"
    lines = [
        f"read: {line or 'nothing'}; "
        f"{read.get('input_bytes', 0) / 1e6:,.1f} MB decompressed"
    ]
    for title, names in (
        ("dropped", DROPPED),
        ("problems", REASONS),
        ("removed_from_pages", {}),
        ("sentences_dropped", {}),
    ):
        if counts := report[title]:
            parts = "; ".join(
                f"{number:,} {names.get(name, name.replace('_', ' '))}"
                for name, number in counts.items()
            )
            title = title.replace("_", " ")
            lines.append(f"{title}: {sum(counts.values()):,} ({parts})")
    if report["flags"]["drop_repeated_lines"]:
        lines.append(f"repeated lines dropped: {report['repeated_lines']:,}")
    for split in (TRAIN, HELDOUT):
        sizes = report[split]
        if sizes["files"]:
            lines.append(
                f"{split}: {sizes['documents']:,} documents, "
                f"{sizes['sentences']:,} sentences, {sizes['words']:,} words, "
                f"{sizes['characters']:,} characters in {len(sizes['files'])} "
                "files"
            )
    if speed:
        lines.append(f"speed: {speed}")
    return lines


def find_warnings(report: dict[str, Any]) -> list[str]:
    """Return a line for each count that makes a mistake likely."""
    found = []
    problems = sum(report["problems"].values())
    if problems:
        found.append(
            f"{problems:,} parts of the input could not be used; corpus.json "
            "names the first ones, and --strict makes them errors"
        )
    train = report[TRAIN]
    empty = sum(not file["documents"] for file in train["files"].values())
    if empty:
        found.append(
            f"{empty} of {len(train['files'])} training files have no "
            "document: give fewer --num_shards"
        )
    heldout = report[HELDOUT]
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
    articles = report["read"].get("articles", 0)
    empty = report["dropped"].get("without_text", 0)
    if kinds == {DUMP} and empty > 0.05 * articles:
        found.append(f"{empty:,} of {articles:,} articles have no text")
    return found


def no_document_error(input_name: str, total: dict[str, Any]) -> InputError:
    """Return the error for an input without a document in its `total`."""
    counts, why = total["counts"], ""
    parts = [
        f"{counts[name]:,} {words}"
        for name, words in {**DROPPED, **REASONS}.items()
        if counts.get(name)
    ]
    if parts:
        why = f" ({'; '.join(parts)})"
    for problem in problems_of(total)[:1]:
        why += f"; the first problem: {problem.line()}"
    return InputError(f"no document in {input_name}{why}")
