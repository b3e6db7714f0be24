"""Summarize a run in corpus.json and in lines of text; warn of mistakes."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
}

# Prefixes of what wikitext.to_sentences counts: parts of pages, by kind, and
# sentences that lost words, by reason.
_WIKITEXT, _SENTENCES = "wikitext_", "sentences_"

_READ = {
    "pages": "pages",
    "json_lines": "JSON lines",
    "rows": "rows",
    "texts": "texts",
}

_SIZES = ("documents", "sentences", "words", "characters", "bytes")


def problem_lines(result: dict[str, Any]) -> list[str]:
    """Return the messages of the first problems of a chunk or of all."""
    return [Problem(*problem).line() for problem in result["problems"]]


def in_words(counts: Mapping[str, int], names: Mapping[str, str]) -> str:
    """Return the counts of some names that are not 0, in words."""
    return "; ".join(
        f"{counts[name]:,} {words}"
        for name, words in names.items()
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
    lost = {
        name.removeprefix(_WIKITEXT): number
        for name, number in sorted(counts.items())
        if name.startswith(_WIKITEXT)
    }
    read = {name: counts[name] for name in ("articles", "input_bytes", *_READ)}
    tables = {
        "read": read,
        "dropped": {name: counts[name] for name in DROPPED},
        "problems": {name: counts[name] for name in REASONS},
    }
    return {
        title: {name: number for name, number in table.items() if number}
        for title, table in tables.items()
    } | {
        "first_problems": problem_lines(run.total),
        "sentences_dropped": {
            name.removeprefix(_SENTENCES): number
            for name, number in lost.items()
            if name.startswith(_SENTENCES)
        },
        "removed_from_pages": {
            name: number
            for name, number in lost.items()
            if not name.startswith(_SENTENCES)
        },
        **splits,
    }


def summarize(report: dict[str, Any]) -> list[str]:
    """Return the lines of the closing summary."""
    read = report["read"]
    line = in_words(read, _READ).replace("; ", ", ") or "nothing"
    if "pages" in read:
        line += f" (articles: {read.get('articles', 0):,})"
    megabytes = read.get("input_bytes", 0) / 1e6
    lines = [f"read: {line}; {megabytes:,.1f} MB decompressed"]
    for title, names in (
        ("dropped", DROPPED),
        ("problems", REASONS),
        ("removed_from_pages", {}),
        ("sentences_dropped", {}),
    ):
        if counts := report[title]:
            plain = {name: name.replace("_", " ") for name in counts}
            lines.append(
                f"{title.replace('_', ' ')}: {sum(counts.values()):,} "
                f"({in_words(counts, {**plain, **names})})"
            )
    for split in (TRAIN, HELDOUT):
        sizes = report[split]
        if sizes["files"]:
            lines.append(
                f"{split}: {sizes['documents']:,} documents, "
                f"{sizes['sentences']:,} sentences, {sizes['words']:,} words, "
                f"{sizes['characters']:,} characters in {len(sizes['files'])} "
                "files"
            )
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
