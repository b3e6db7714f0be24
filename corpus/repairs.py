"""Repair what templates leave behind, and judge which sentences are broken.

markup.py puts marks where words were removed. In parentheses the part with the
mark goes, since a sentence is whole without it:

    "Rome (\\ue000; born 1 May) is" -> "Rome (born 1 May) is"

Everywhere else the sentence has lost words, and judge() names the reason to
drop it.
"""

import collections
import re

from corpus.markup import BROKEN, FORMULA, GAP, LOST, UNSPACED

# A vandalised page can be one run of separators. Every expression here takes
# linear time: a run is entered at its beginning only, (?<!x)x+, and two
# neighbours never match the same character.
_SPACES = re.compile(r"[^\S\n]{2,}|[\t\xa0\u2000-\u200a\u202f\u205f\u3000\n]")
# Zero-width joiners stay: they change letters of Persian and Hindi.
_INVISIBLE = re.compile(
    "[\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+"
)
_MARKED_GAPS = re.compile(rf"([.!?]['\"”’»)]?){GAP}+(?=[^\W\d_a-z])")
_PARENTHESES = re.compile(r"([(（\[])([^()（）\[\]]*)([)）\]])")
_SEPARATORS = re.compile(r"([;,:،؛；，、])")
_EMPTY = re.compile(
    r" ?[(（](?:\s*(?:e\.g|i\.e|cf|see|vgl|z\. ?B|siehe)\b)?"
    r"[-–—/:;,.،؛；，、\s\"'“”„]*[)）]"
)
_NESTED = re.compile(r"\(\(([^()]*)\)\)")
_AFTER_OPEN = re.compile(r"([(（])[\s;,:،؛；，、]+")
_BEFORE_CLOSE = re.compile(r"(?<![\s;,،؛；，、])[\s;,،؛；，、]+([)）])")
_DOUBLED = re.compile(r"([,;،؛；，、])(?:\s*[,;،؛；，、])+")
# Used after _DOUBLED, when no two separators in a row are left.
_COMMA_STOP = re.compile(r"(?<!\s)\s*[,;،؛；，、]\s*([.。])(?!\.)")
_SPACE_BEFORE = re.compile(r"(?<=\S) +([,.،۔。，、])(?=[\s\"'”’»)]|$)")
_SPACE_BEFORE_TALL = re.compile(r"(?<=\S) +([;:!?؛؟])(?=[\s\"'”’»)]|$)")
# [[Martin Luther King Jr.]]. has two full stops.
_TWO_STOPS = re.compile(r"(?<![.\s])\.\.(?!\.)")
_URL_ONLY = re.compile(r"\A(?=\S*https?://)\S*$")

# A space that a template left behind, in scripts without spaces.
_CJK_SPACE = re.compile(r"(?<=[」』）。、，]) | (?=[「『（。、，])")

# French sets a space before these marks.
_SPACED_LANGUAGES = frozenset(("fr", "br", "oc", "wa", "pcd", "nrm"))


def repair(text: str, language: str, counts: collections.Counter[str]) -> str:
    """Return a paragraph without the traces of what was cut out of it.

    Marks of lost words stay where the words belong to the sentence itself.
    Parentheses that lose a part are counted.
    """

    def without_lost(match: re.Match[str]) -> str:
        kept = _lost_in_parentheses(match)
        if kept != match[0]:
            counts["parts_of_parentheses"] += 1
        return kept

    if GAP in text:
        text = _MARKED_GAPS.sub(r"\1 ", text).replace(GAP, "")
    text = _INVISIBLE.sub("", text)
    if LOST in text or FORMULA in text:
        text = _PARENTHESES.sub(without_lost, text)
    text = _SPACES.sub(" ", text)
    if "(" in text or "（" in text:
        text = _AFTER_OPEN.sub(r"\1", _EMPTY.sub("", text))
        text = _BEFORE_CLOSE.sub(r"\1", text)
        if "((" in text:
            text = _NESTED.sub(r"(\1)", text)
    # The heaviest of some separators in a row stays.
    text = _DOUBLED.sub(
        lambda m: next((c for c in m[0] if c in ";؛；"), m[1]), text
    )
    text = _COMMA_STOP.sub(r"\1", text)
    text = _SPACE_BEFORE.sub(r"\1", text)
    if language not in _SPACED_LANGUAGES:
        text = _SPACE_BEFORE_TALL.sub(r"\1", text)
    if language in UNSPACED:
        text = _CJK_SPACE.sub("", text)
    if ".." in text:
        text = _TWO_STOPS.sub(".", text)
    # All white space is " " by now.
    if "  " in text:
        text = _SPACES.sub(" ", text)
    return text.strip()


def _lost_in_parentheses(match: re.Match[str]) -> str:
    """Return parentheses without the parts that lost words.

    A part that is nothing else than the mark and a label goes alone: "(Greek:
    \\ue000; born 1950)" is "(born 1950)". Otherwise everything goes.
    """
    left, content, right = match.groups()
    if LOST not in content and FORMULA not in content:
        return match[0]
    parts = _SEPARATORS.split(content)
    kept = []
    for index in range(0, len(parts), 2):
        part = parts[index]
        if LOST in part or FORMULA in part:
            rest = part.replace(LOST, " ").replace(FORMULA, " ")
            if len(rest.split()) > 2:
                return ""
            # The label before a colon goes along: "Greek: ".
            if kept and kept[-1].endswith(":"):
                kept.pop()
            continue
        separator = parts[index + 1] if index + 1 < len(parts) else ""
        if part.strip():
            kept.append(part + separator)
    return f"{left}{''.join(kept)}{right}" if kept else ""


_LEFTOVER = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|\||==|</?[a-z]+\b[^<>]*>|<ref|-\{|\}-"
    r"|(?<!\d)\d+px|^\s*[*#:;=!]|&[a-z]+;|__[A-Z]{3,}__",
    re.IGNORECASE,
)
_END = re.compile(
    r"[.!?…。！？｡؟।॥۔։።၊။។][\"'”’»›“)\]）】〉》」』]*$"
    r"|[.!?…。！？]\s*[»”]$"
)
_FIRST_WORD = re.compile(r"\A[\W\d_]*([^\W\d_]+)")
# Scripts that end sentences by spaces, or not at all.
_WITHOUT_STOPS = frozenset("th lo km my bo dz shn mnw".split())


def judge(sentence: str, language: str, introduces: bool, last: bool) -> str:
    """Return the reason to drop a sentence of a paragraph, "" for none.

    `introduces` says that a removed list or table follows its paragraph, `last`
    that the sentence is the last one there.
    """
    if LOST in sentence:
        return "lost_words"
    if FORMULA in sentence:
        return "formula"
    if BROKEN in sentence or _LEFTOVER.search(sentence):
        return "leftover_markup"
    first = _FIRST_WORD.match(sentence)
    if first is None or _URL_ONLY.match(sentence):
        return "no_words"
    if _starts_inside(sentence, first):
        return "lower_case_start"
    if last and language not in _WITHOUT_STOPS and not _END.search(sentence):
        # "He wrote:" may introduce a quotation, which is a paragraph.
        # Without a full stop it is mostly a title, or a formula follows.
        if sentence[-1] not in ":：":
            return "unfinished"
        if introduces:
            return "introduces_removed"
    if sentence.count("(") != sentence.count(")"):
        return "unbalanced"
    return ""


def _starts_inside(sentence: str, first: re.Match[str]) -> bool:
    """Return whether the first word, in lower case, begins no sentence.

    iPhone, eBay and d'Alembert start sentences.
    """
    word = first[1]
    if sentence[0] == "⟨":
        return False
    if not word[0].islower() or "ა" <= word[0] <= "ჿ":
        return False
    if word.lower() != word or first.start(1) > 0 and sentence[0].isdigit():
        return False
    following = sentence[first.end() : first.end() + 2]
    return not (following[:1] in "'’-" and following[1:].isupper())
