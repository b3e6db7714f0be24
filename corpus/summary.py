"""Summarize a run in corpus.json and in lines of text; warn of mistakes."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from base.errors import InputError

from corpus.documents import HELDOUT, TRAIN
from corpus.items import DUMP, TEXT, Problem

if TYPE_CHECKING:
    from base.jobs.engine import Done

    from corpus.plan import Plan

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


def make_report(plan: Plan, done: Done) -> dict[str, Any]:
    """Return the content of corpus.json.

    It has nothing in it that depends on the number of workers or on how often
    a run was interrupted.
    """
    counts = collections.Counter(done.total["counts"])
    inputs = done.total["inputs"]
    splits = {}
    for split in (TRAIN, HELDOUT):
        sums, files = collections.Counter(), {}
        for path in plan.output_files[split]:
            entry = done.entries[path]
            sums.update(entry["counts"])
            sums["bytes"] += entry["bytes"]
            files[path.removeprefix(plan.output_dir).lstrip("/")] = {
                "bytes": entry["bytes"],
                "documents": entry["counts"].get("documents", 0),
            }
        for name in (
            "duplicates",
            "repeated_lines",
            "too_short_without_repeated_lines",
        ):
            counts[name] += sums.pop(name, 0)
        splits[split] = {
            **{name: sums[name] for name in _SIZES},
            "files": files,
        }
    return {
        "read": _some(counts, ("articles", "input_bytes", *_READ)),
        "dropped": _some(counts, DROPPED),
        "problems": _some(counts, REASONS),
        "first_problems": [p.line() for p in problems_of(done.total)],
        "sentences_dropped": _named(counts, _DROPPED_SENTENCES),
        "removed_from_pages": {
            name: number
            for name, number in _named(counts, "wikitext_").items()
            if not f"wikitext_{name}".startswith(_DROPPED_SENTENCES)
        },
        "repeated_lines": counts["repeated_lines"],
        **splits,
        "flags": plan.steps.flags._asdict(),
        "versions": plan.versions,
        "inputs": {p: inputs[p] for p in plan.input_files if p in inputs},
    }


_SIZES = ("documents", "sentences", "words", "characters", "bytes")


def _some(counts: collections.Counter, names: Sequence[str]) -> dict[str, int]:
    """Return the counts of these names that are not 0."""
    return {name: counts[name] for name in names if counts[name]}


def _named(counts: collections.Counter, prefix: str) -> dict[str, int]:
    """Return the counts whose names have a prefix, without it, sorted."""
    return {
        name.removeprefix(prefix): number
        for name, number in sorted(counts.items())
        if name.startswith(prefix)
    }


# --- The closing summary -----------------------------------------------------


def summarize(
    report: dict[str, Any], input_bytes: int, seconds: float, num_workers: int
) -> list[str]:
    """Return the lines of the closing summary.

    Args:
        report: content of corpus.json.
        input_bytes: size of the items that this run has read.
        seconds: that it took.
        num_workers: worker processes.
    """
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
    lines += _list("dropped", report["dropped"], DROPPED)
    lines += _list("problems", report["problems"], REASONS)
    for title in ("removed_from_pages", "sentences_dropped"):
        names = {name: name.replace("_", " ") for name in report[title]}
        lines += _list(title.replace("_", " "), report[title], names)
    if report["flags"]["drop_repeated_lines"]:
        lines.append(f"repeated lines dropped: {report['repeated_lines']:,}")
    for split in (TRAIN, HELDOUT):
        sizes = report[split]
        if not sizes["files"]:
            continue
        lines.append(
            f"{split}: {sizes['documents']:,} documents, "
            f"{sizes['sentences']:,} sentences, {sizes['words']:,} words, "
            f"{sizes['characters']:,} characters in {len(sizes['files'])} files"
        )
    if seconds and input_bytes:
        rate = input_bytes / 1e6 / seconds
        lines.append(
            f"speed: {rate:.2f} MB/s, {rate / num_workers:.2f} MB/s for each "
            f"of {num_workers} workers"
        )
    return lines


def _list(
    title: str, counts: dict[str, int], names: dict[str, str]
) -> list[str]:
    """Return a line of counts, none if there are none."""
    if not counts:
        return []
    parts = "; ".join(f"{n:,} {names[name]}" for name, n in counts.items())
    return [f"{title}: {sum(counts.values()):,} ({parts})"]


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
    separator = report["flags"].get("document_separator")
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
    """Return the error for an input without a single document.

    Args:
        input_name: the input, for the message.
        total: see `CorpusSteps.add`.
    """
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
