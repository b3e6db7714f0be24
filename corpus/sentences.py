"""Split paragraphs into sentences by sentencex, with a few repairs."""

import functools
import re

import sentencex

from corpus import words
from corpus.items import Unusable
from corpus.site import LANGUAGE_CODES

# sentencex compares every full stop with every pair of quotation marks of a
# paragraph. Pieces of this many characters keep the time linear.
_PIECE = 10_000


# sentencex fails on a capital letter, another white space than " " and a full
# stop, such as a no-break space. White space becomes " " in a corpus anyway.
_WHITE_SPACE = re.compile(r"\s")


def known_language(language: str) -> bool:
    """Return whether a code names a language, "en" or "zh-hant".

    sentencex has rules for about 30 and uses a related language's for 200 more.
    All others get the English ones, which know the full stops of all scripts.
    """
    code = language.lower()
    return code in LANGUAGE_CODES or code.split("-")[0] in LANGUAGE_CODES


def split(paragraph: str, language: str) -> list[str]:
    """Return the sentences of a paragraph, stripped, without empty ones.

    Raises:
        Unusable: sentencex fails on this text.
    """
    found: list[str] = []
    for piece in _pieces(_WHITE_SPACE.sub(" ", paragraph)):
        try:
            segments = sentencex.segment(language, piece)
        except BaseException as error:
            # A panic in its Rust code is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise Unusable(
                "refused_text", f"sentencex fails: {error}"
            ) from error
        is_glued = False
        for segment in segments:
            for part in _split_again(segment, language):
                sentence = part.strip()
                is_glued = is_glued and not part[:1].isspace()
                if found and _is_one(found[-1], sentence, language, is_glued):
                    found[-1] += f"{'' if is_glued else ' '}{sentence}"
                elif sentence:
                    found.append(sentence)
                is_glued = not part[-1:].isspace()
    return found


def _pieces(paragraph: str) -> list[str]:
    """Return a paragraph in pieces that end with a full stop if possible."""
    pieces = []
    while len(paragraph) > _PIECE:
        cut = max(
            paragraph.rfind(stop, _PIECE // 2, _PIECE) + len(stop)
            for stop in (". ", "。", "। ", "؟ ", "۔ ")
        )
        if cut < _PIECE // 2:
            cut = paragraph.rfind(" ", _PIECE // 2, _PIECE) + 1 or _PIECE
        pieces.append(paragraph[:cut])
        paragraph = paragraph[cut:]
    return [*pieces, paragraph]


# What sentencex takes for one sentence: "(So it was.) Then", "It was. 1990 was
# not", and the same without spaces: 「年。1990年」.
_MISSED_END = re.compile(
    r"[.!?]\) (?=[^\W\d_a-zа-я])|(?<=[^\W\d_]{3}[.!?]) (?=\d{4}\b)"
    r"|[。！？][」』”]?(?=[^。！？」』）”’》〉】)])"
    # It misplaces ends behind Latin letters in Arabic text.
    r"|(?<=[\u0621-\u064a]{3}[.!؟]) (?=[\u0621-\u064a])"
    # Between two apostrophes sentencex expects a quotation: "the cows' milk
    # was sold. Then the farmers' ...".
    r"|(?<= )([a-zß-ÿа-я]{3,20})[.!?] (?=[A-ZÀ-ÞА-Я])"
)
# One of these characters is in each match, not as the last of the sentence.
_STOPS = ".!?؟。！？"
_WORDS = words.read("sentences")
_BRACKETS = re.compile(r"[(（「『“〈《【\[]|[)）」』”〉》】\]]")
_OPENING = frozenset("(（「『“〈《【[")


def _split_again(segment: str, language: str) -> list[str]:
    """Return a segment of sentencex, divided where it misses an end."""
    # Most have a full stop at their end only. Finding that takes a tenth of
    # the time of the search below.
    length = len(segment.rstrip())
    inner = segment[: length - 1]
    if not any(map(inner.__contains__, _STOPS)):
        return [segment]
    parts = []
    start = depth = position = 0
    for match in _MISSED_END.finditer(segment, 0, length):
        for bracket in _BRACKETS.findall(segment, position, match.end()):
            depth += 1 if bracket in _OPENING else -1
        position = match.end()
        if (
            depth > 0
            or position == length
            or segment.count('"', start, position) % 2
            or not _is_end(segment, match, language)
        ):
            continue
        parts.append(segment[start:position])
        start = position
        depth = 0
    return [*parts, segment[start:]]


def _is_end(sentence: str, match: re.Match[str], language: str) -> bool:
    """Return whether a match of _MISSED_END does end a sentence."""
    base = language.partition("-")[0]
    if match[1] in _of(base, "may_end"):
        return True
    if not match[1] and not sentence[match.end()].isdecimal():
        return True
    # No more than the last word is read: there may be many matches.
    start = max(0, match.end() - 40)
    word = sentence[start : match.end()].rstrip().rpartition(" ")[2]
    return not word.endswith(".") or not (
        _is_abbreviation(word, language, sentence[match.end()].isdecimal())
        or _is_abbreviation_there(word, language)
    )


@functools.lru_cache(maxsize=2**14)
def _is_abbreviation_there(word: str, language: str) -> bool:
    """Return whether sentencex ends no sentence after a word with a stop."""
    return len(sentencex.segment(language, f"Aa {word} Aa")) == 1


# Languages in which a number with a full stop is an ordinal number.
_ORDINALS = frozenset(
    """de nds bar gsw als lb ksh pdc pfl frr stq da no nb nn fi et eu hu cs sk
    sl hr bs sr sh mk pl lv tr hsb dsb fo is""".split()
)
_ORDINAL = re.compile(r"(?:^|[\s(–-])(?:\d{1,3}|[IVXLC]{1,5})\.$")


def _is_abbreviation(word: str, language: str, is_before_number: bool) -> bool:
    """Return whether a word with a full stop stands before something else."""
    words, months = _abbreviations(language)
    word = word[:-1].lstrip("(\"'“„[«")
    # L'on. Moro
    return (
        not words.isdisjoint((word, re.split(r"['’](?=\w\w)", word)[-1]))
        or is_before_number
        and word.lower() in months
    )


@functools.cache
def _abbreviations(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the abbreviations and the names of months of a language."""
    base = language.partition("-")[0]
    base = _WORDS["written_as"].get(base, base)
    names, months = _of(base, "before_names"), _of(base, "months")
    capitals = {word[0].upper() + word[1:] for word in names if len(word) > 1}
    return names | capitals, months


@functools.cache
def _of(base: str, table: str) -> frozenset[str]:
    """Return the words of a table for a language."""
    return words.of_language(_WORDS[table], base)


# Initials of names, which no sentence ends with: in scripts of which sentencex
# knows no initials, and J.-J. (but J.-C., Christ).
_INITIALS = re.compile(
    r"(?:\A|[\s(„“«.])[\u0370-\u03ff\u0400-\u042f\u0490\u05d0-\u064a]\.\Z"
    r"|\b[A-ZÀ-ÞΑ-ΩА-Я]\w?\.-(?!C\.)[A-ZÀ-ÞΑ-ΩА-Я]\w?\.\Z"
    r"|\A[A-ZÀ-Ž]\.\Z"
)
# In these languages sentencex ends a sentence behind a single initial. Most
# words behind one are names; the shortest are articles, pronouns or the like.
_CUT_AFTER_INITIALS = frozenset("fr es pt ca gl oc da cs sk pl".split())
_INITIAL = re.compile(r"[\s(][A-ZÀ-Ž]\.\Z")
_NAME = re.compile(r"[^\W\d_]{4}")
# The first letter of an abbreviation without spaces, such as î.Hr.
_LETTER = re.compile(r"(?:\A|[\W_])[^\W\d_]\.\Z")
_CLOSES = re.compile(r"\A[^()]*\)")
# No sentence is longer: joining ever longer ones would take quadratic time.
_LONGEST = 3000
# After a closing quotation mark, a Japanese sentence continues with these.
_JAPANESE_PARTICLES = tuple(
    """と って など は が を に の も で や へ から まで より という として
    だ である です との とは とか ・ 、 ） 」 』""".split()
)


def _is_one(before: str, after: str, language: str, is_glued: bool) -> bool:
    """Return whether two parts, with text each, are one sentence.

    `is_glued` says that there is no space between them.
    """
    if not after or len(before) > _LONGEST:
        return False
    # sentencex takes 3.5 for one number, but not ৩.৫; nor J.-C. for one word.
    is_number = before[-2:-1].isdecimal() and after[0].isdecimal()
    has_hyphen = after[0] == "-" and after[1:2].isalpha()
    if is_glued and (
        is_number or has_hyphen or after[0].isalpha() and _LETTER.search(before)
    ):
        return True
    base = language.split("-")[0]
    # Korean sentences end with a verb, not with the 3. of 1990. 5. 3., and go
    # on behind a quotation.
    if base == "ko" and (
        before[-2:-1].isdecimal()
        or (is_glued and before[-1] in "\"'”’" and after[0].isalpha())
    ):
        return True
    if base in ("ja", "zh"):
        # After a quotation or parenthesis the sentence may go on.
        return (
            after[0] in "」』）”’》〉】，、；：,"
            or (
                base == "ja"
                and before[-1] in "」』）"
                and after.startswith(_JAPANESE_PARTICLES)
            )
            or (
                base == "zh"
                and before[-1] in "”』」）"
                and after[0] in "的等之"
            )
        )
    if before.count("(") > before.count(")") and _CLOSES.match(after):
        return True
    if after[0] == ")" or before[-1] in (",;" if base != "el" else ","):
        return True
    if before[-1] not in ".!?…\"'”’“‘»)":
        return False
    word = after.lstrip("(\"“„«‘' ")
    if (
        word[:1].islower()
        and not "ა" <= word[0] <= "ჿ"  # Georgian has no capital letters
        and not word[1:2].isupper()  # iPhone and eBay start sentences
    ):
        return True
    if base in _ORDINALS and _ORDINAL.search(before[-12:]):
        return True
    if _INITIALS.search(before, max(0, len(before) - 12)) or (
        base in _CUT_AFTER_INITIALS
        and _INITIAL.search(before, max(0, len(before) - 3))
        and _NAME.match(word)
    ):
        return True
    *_, first, last = ["", *before[-40:].split(" ")]
    if len(first) == len(last) == 2 and first[1] == ".":  # т. е.
        last = first + last
    if is_glued and last.endswith("."):  # वि.सं.
        last += after.partition(" ")[0]
    return last.endswith(".") and _is_abbreviation(
        last, language, is_before_number=after[0].isdecimal()
    )
