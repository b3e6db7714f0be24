"""Split paragraphs into sentences by sentencex, with a few repairs."""

import re

import sentencex

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
        for long_one in segments:
            for sentence in _split_again(long_one.strip()):
                between = found and _joint(found[-1], sentence, language)
                if between:
                    found[-1] += between.strip("+") + sentence
                else:
                    found.append(sentence)
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
# Words that end with a full stop in the middle of a sentence.
_INNER = frozenset(
    """approx vol vols fig figs cap caps esp dept est min max lit ext ssp subsp
    var spp nom gen sect pref viz incl excl resp orig trans repr bzw evtl inkl
    ggf vgl sog geb gest abs zzgl проф акад инж напр обл вид тыс млн млрд чел
    бул гор соч изд éd apr env ред стр кор див пор нар нас пос дер кит лат
    англ нем фр греч итал исп устар букв им ул ст род ум вел кв куб""".split()
)
_BRACKETS = re.compile(r"[(（「『“〈《【\[]|[)）」』”〉》】\]]")
_OPENING = frozenset("(（「『“〈《【[")


def _split_again(sentence: str) -> list[str]:
    """Return a sentence, divided where sentencex misses an end."""
    # Most have a full stop at their end only. Finding that takes a tenth of
    # the time of the search below.
    inner = sentence[:-1]
    if not any(map(inner.__contains__, _STOPS)):
        return [sentence] if sentence else []
    parts = []
    start = depth = position = 0
    for match in _MISSED_END.finditer(sentence):
        for bracket in _BRACKETS.findall(sentence, position, match.end()):
            depth += 1 if bracket in _OPENING else -1
        position = match.end()
        if match[1] in _INNER or sentence.count('"', start, position) % 2:
            continue
        if depth <= 0 and match.end() < len(sentence):
            parts.append(sentence[start : match.end()].strip())
            start = match.end()
            depth = 0
    parts.append(sentence[start:].strip())
    return [part for part in parts if part]


# Languages in which a number with a full stop is an ordinal number.
_ORDINALS = frozenset(
    """de nds bar gsw als lb da no nb nn fi et hu cs sk sl hr bs sr sh lv tr
    hsb dsb fo is""".split()
)
_ORDINAL = re.compile(r"(?:^|[\s(–-])(?:\d{1,3}|[IVXLC]{1,5})\.$")
# Abbreviations that stand before what they belong to, so that no sentence
# ends with them.
_BEFORE_NAMES = {
    "en": """approx ca cf c e.g i.e viz esp fl lit Nos vol vols pp op Mt St Ft
        Lt Col Gen Sgt Capt Cpl Maj Adm Cmdr Rev Hon Sen Rep Gov Pres Prof Dr
        Mr Mrs Ms Messrs vs Pvt Fr Sr. Msgr Brig Bvt Supt Insp Ven Rt""",
    "de": """z.B z. d. u. u.a v.a bzw ca vgl sog geb gest Nr Bd Hrsg Dr Prof
        St Mio Mrd inkl evtl ggf i.d.R d.h S Abs Art Aufl Kap Abb lat griech
        engl franz usw.""",
    "fr": "M MM Mme Mlle Dr Pr St Ste av apr env cf p.ex ex c.-à-d éd vol",
    "es": "Sr Sra Srta Dr Dra D Dña Ud Uds Prof Gral Cía núm pág aprox cf",
    "bg": "т.е проф доц акад инж арх ген полк т.нар напр ок св д-р гр бул вж",
    "ru": "т.н т.е им проф акад ген св напр ок ул см пр гр д-р ср им. р",
}
_ABBREVIATIONS = {
    language: frozenset(words.split())
    for language, words in _BEFORE_NAMES.items()
}
_CLOSES = re.compile(r"\A[^()]*\)")
# No sentence is longer: joining ever longer ones would take quadratic time.
_LONGEST = 3000
# After a closing quotation mark, a Japanese sentence continues with these.
_JAPANESE_PARTICLES = tuple(
    """と って など は が を に の も で や へ から まで より という として
    だ である です との とは とか ・ 、 ） 」 』""".split()
)


def _joint(before: str, after: str, language: str) -> str:
    """Return what joins two parts that are one sentence, "" if they are two.

    " " joins with a space, "+" without.
    """
    if len(before) > _LONGEST:
        return ""
    base = language.split("-")[0]
    if base in ("ja", "zh"):
        # After a quotation or parenthesis the sentence may go on.
        continues = (
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
        return "+" if continues else ""
    if before.count("(") > before.count(")") and _CLOSES.match(after):
        return " "
    if after[0] == ")":
        return "+"
    if before[-1] in ",;":
        return " "
    if before[-1] not in ".!?…\"'”’“‘»)":
        return ""
    word = after.lstrip("(\"“„«‘' ")
    if (
        word[:1].islower()
        and not "ა" <= word[0] <= "ჿ"  # Georgian has no capital letters
        and not word[1:2].isupper()  # iPhone and eBay start sentences
    ):
        return " "
    if base in _ORDINALS and _ORDINAL.search(before[-12:]):
        return " "
    last = before.rpartition(" ")[2].lstrip("(\"'“„[")
    words = _ABBREVIATIONS.get(base, ())
    return " " if last.endswith(".") and last[:-1] in words else ""
