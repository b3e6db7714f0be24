"""The text of inline templates, such as "5 miles" for {{convert|5|mi|km}}.

A dump does not hold what templates show. Most of them show no text of the
article; a small table renders those that stand inside of sentences and whose
text is plain from their arguments. Sentences with any other template are
dropped by repairs.py, unless the template's name or place tells that it is a
remark, such as {{citation needed}}.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from corpus import numbers, words

_NAME = re.compile(r"\{\{\s*(?:subst:|safesubst:)?\s*([^|{}<>\[\]\n]*)")
_PARTS = re.compile(r"\{\{|\}\}|\[\[|\]\]|\||=")


_WORDS = words.read("templates")
# How the names of remarks end, and those of citations begin, in many wikis.
_REMARK_ENDS = (" needed", " inline", "-inline", "?")
# A remark that tells its date, and nothing else.
_DATED = re.compile(
    r"\{\{[^|{}]*\|\s*(?:date|data|fecha|datum|dato|дата|日付|日期|تاريخ)\s*="
    r"[^|{}]*\}\}"
)
# Coordinates that stand beside the title of the page.
_BESIDE_TITLE = re.compile(r"\|\s*display\s*=\s*title\s*[|}]")


def name_of(source: str) -> str:
    """Return the name of a template, in lower case, from its source."""
    match = _NAME.match(source)
    return match[1].replace("_", " ").strip().lower() if match else ""


def positional(source: str) -> list[str]:
    """Return the positional arguments of a template, stripped.

    {{lc:text}}, {{name|1=text}} and {{2}}, an exponent, have one,
    {{name|key=text}} has none.
    """
    name = name_of(source)
    if ":" in name or name.isdigit():
        return [name]
    found = []
    # The name is no argument.
    depth, start, is_named = 0, 0, True
    for match in _PARTS.finditer(source):
        token = match[0]
        if token in ("{{", "[["):
            depth += 1
        elif depth == 1 and token == "=" and not is_named:
            is_named = not source[start : match.start()].strip().isdigit()
            start = match.end()
        elif depth == 1 and token in ("|", "}}"):
            if not is_named:
                found.append(source[start : match.start()].strip())
            start, is_named = match.end(), False
        depth -= token in ("}}", "]]")
    return found


def _is_date(values: list[str]) -> bool:
    """Return whether a remark's arguments are a date or nothing.

    {{нет АИ|5|6|2019}}, {{bron?||2019|06|05}}; {{quand|2019}} has words.
    """
    first, *more = [*values, ""]
    is_text = first and not (first.isdecimal() and len(values) == 3)
    return not is_text and all(v.isdecimal() for v in more if v)


def is_silent(name: str, source: str, language: str) -> bool:
    """Return whether a template shows no word of the text."""
    if name in _silent_names("notes", _code(language)):
        return True
    remarks = _silent_names("remarks", _code(language))
    if name in remarks or name.endswith(_REMARK_ENDS) or name[:5] == "cite ":
        return _is_date(positional(source))
    if "display" in source and _BESIDE_TITLE.search(source):
        return True
    return _DATED.fullmatch(source) is not None


@functools.cache
def _silent_names(kind: str, code: str) -> frozenset[str]:
    """Return the names of notes or of remarks in a wiki."""
    return words.of_language(_WORDS[kind], code)


@functools.cache
def _code(language: str) -> str:
    """Return the code by which the tables here know a wiki."""
    code = language.lower().partition("-")[0]
    return "en" if code == "simple" else code


def is_remark(before: str, after: str, with_text: bool) -> bool:
    """Return whether a template is a remark, by the characters around it.

    "in 1990.{{x}} He" and "most{{x}} people" lose nothing, "{{x}} people" and
    "has {{x}} people" may have lost a number. One character before it and two
    after it are looked at. A template `with_text` is a remark between sentences
    only.
    """
    if with_text:
        ends = not after or after[0] == "\n"
        starts = after.strip()[:1].isupper()
        stops = ".!?。！？" if ends else ".!?"
        return before != "" and before in stops and (ends or starts)
    ends = (
        not after or after[0] in " \n\t,.;:)]<\ue003{" or after[0] in "，。、"
    )
    if before in ("", "\n"):
        # At the start of a line: what follows starts a sentence.
        return after.strip()[:1].isupper()
    if not ends:
        return before in ".!?。！？" and after[0].isupper()
    # In scripts without spaces every template touches a word.
    if before in ".,;:!?\"'”’»)]。、，！？」』\ue003":
        return not (
            after[:1] == " " and after[1:].islower() and before in ".!?"
        )
    return before.isalpha() and before < "\u0e00"


# --- Text of templates -------------------------------------------------------


class Call(NamedTuple):
    """A template with its arguments as text: {{name|value|key=value}}."""

    name: str
    values: list[str]
    named: dict[str, str]
    language: str

    @property
    def first(self) -> str:
        """The first positional argument, "" without one."""
        return self.values[0] if self.values else ""

    def named_as(self, *keys: str) -> str:
        """Return the first argument with one of these names, "" if none is."""
        return next(filter(None, map(self.named.get, keys)), "")

    def text(self) -> str | None:
        """Return what the template shows, None if that is not known."""
        renderer = renderer_of(self.name, self.language)
        return renderer(self) or None if renderer else None


# Returns the text of a template, None or "" if its arguments do not tell it.
Renderer = Callable[[Call], str | None]


def _filled(pattern: str, call: Call) -> str:
    """Return a pattern with the first argument in place of {}, if it has {}."""
    shows = call.first or "{}" not in pattern
    return pattern.format(call.first) if shows else ""


def _joined(between: str, prefix: str = "", most: int = 99) -> Renderer:
    """Return a renderer that joins the first positional arguments."""

    def render_joined(call: Call) -> str:
        filled = list(filter(None, call.values))[:most]
        return prefix + between.join(filled) if filled else ""

    return render_joined


def _in_language(call: Call) -> str:
    """Return the text of {{lang|de|Text}}."""
    return call.named_as("2", "text") or [*call.values, "", ""][1]


def _transliterated(call: Call) -> str | None:
    """Return the text of {{transl|ar|DIN|al-jabr}}."""
    return next(filter(None, reversed(call.values)), call.named.get("text"))


_MONTHS = """January February March April May June July August September
    October November December""".split()


def _as_of(call: Call) -> str | None:
    """Return "As of 5 March 2014" for {{as of|2014|3|5}}."""
    named = call.named
    if named.get("alt"):
        return named["alt"]
    parts = list(filter(None, call.values))
    if not parts or named.get("bare") or named.get("post"):
        return None
    if len(parts) > 1 and parts[1].isdigit() and 1 <= int(parts[1]) <= 12:
        parts[1] = _MONTHS[int(parts[1]) - 1]
    start = "Since " if named.get("since") else "As of "
    if named.get("lc"):
        start = start.lower()
    if named.get("df", "").lower() == "us" and len(parts) == 3:
        return f"{start}{parts[1]} {parts[2]}, {parts[0]}"
    return start + " ".join(parts[2::-1])


def _fraction(call: Call) -> str | None:
    """Return "2 1/4" for {{frac|2|1|4}}, "1/4" for {{frac|4}}."""
    parts = list(filter(None, call.values))
    if not parts or len(parts) > 3:
        return None
    if len(parts) == 1:
        return f"1/{parts[0]}"
    whole = f"{parts[0]} " if len(parts) == 3 else ""
    return f"{whole}{parts[-2]}/{parts[-1]}"


RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def _raised(call: Call) -> str:
    """Return "×10²⁴" for {{e|24}}, "10⁶" for {{10^|6}}, "²" for {{sup|2}}."""
    prefix = {"10^": "10", "sup": "", "exp": ""}.get(call.name, "×10")
    value = call.first.translate(RAISED)
    return prefix + value if value else ""


def _scientific(call: Call) -> str | None:
    """Return "6.24×10¹⁸ kg" for {{val|6.24|e=18|u=kg}}."""
    if not 1 <= len(call.values) <= 2 or call.named.keys() - {"e", "u"}:
        return None
    parts = [numbers.formatted(value, call.language) for value in call.values]
    if None in parts or not parts[-1][-1:].isdecimal():
        return None
    text = "±".join(parts)
    if power := call.named.get("e", "").strip():
        text = f"({text})" if len(parts) > 1 else text
        text += "×10" + power.translate(RAISED)
    unit = call.named.get("u", "").strip()
    return f"{text} {unit}" if unit else text


def _measure(call: Call) -> str | None:
    """Return "5 miles" for {{convert|5|mi|km}}, "5 mi" for {{cvt|5|mi|km}}."""
    abbreviated = {} if call.name == "convert" else {"abbr": "on"}
    named = abbreviated | call.named
    return numbers.convert(call.values, named, call.language)


def _formatted_number(call: Call) -> str | None:
    """Return "12.345" for {{formatnum:12345}} in German."""
    if call.values:
        return None
    text = call.name.partition(":")[2].strip()
    return numbers.formatted(text, call.language)


def _number_with_unit(call: Call) -> str | None:
    """Return "10 km²" for {{unité|10|km|2}}."""
    number, unit, power, *more = [*call.values, "", "", ""]
    is_number = re.fullmatch(r"[-−]?[\d ]+(?:[.,]\d+)?", number)
    if not is_number or any(more) or call.named or unit.isdigit():
        return None
    if unit in _BETWEEN_NUMBERS:
        return None
    if power and not re.fullmatch(r"[-−]?\d", power):
        return None
    number = number.replace(" ", "").replace("−", "-").replace(",", ".")
    text = numbers.formatted(number, call.language)
    return text and f"{text} {unit}{power.translate(RAISED)}".strip()


_BETWEEN_NUMBERS = frozenset("à a et e y ou o x × - – / + ± par por".split())


def _french_date(call: Call) -> str | None:
    """Return "3 mars 1850" for {{date|3|mars|1850|en politique}}."""
    values = call.values
    if values and values[0].isalpha():  # {{date|mars|1850}}
        values = ["", *values]
    day, month, year, *_ = [*values, "", "", ""]
    if re.fullmatch("0?[1-9]|1[012]", month):
        month = _FRENCH_MONTHS[int(month) - 1]
    is_day = re.fullmatch("(?:1er|0?[1-9]|[12][0-9]|3[01])?", day)
    if call.named or not is_day or month.lower() not in _FRENCH_MONTHS:
        return None
    day = "1er" if day in ("1", "01") else day.lstrip("0")
    return " ".join(filter(None, (day, month, year)))


_FRENCH_MONTHS = """janvier février mars avril mai juin juillet août septembre
    octobre novembre décembre""".split()


def _french_century(call: Call) -> str | None:
    """Return "XIXe siècle" for {{s-|XIX|e}}, and with its era for {{-s-|I}}."""
    number, ordinal, *more = [*call.values, "", ""]
    number = number.upper()
    ordinal = ordinal or ("er" if number == "I" else "e")
    is_century = re.fullmatch("[IVX]+", number) and ordinal in ("e", "er")
    if not is_century or any(more) or call.named:
        return None
    era = " av. J.-C." if call.name.startswith("-") else ""
    return f"{number}{ordinal} siècle{era}"


def _french_centuries(call: Call) -> str | None:
    """Return "XVe au XVIe siècle" for {{sp-|XV|e|au|XVI|e}}."""
    if len(call.values) < 5 or any(call.values[5:]) or call.named:
        return None
    first, ordinal, between, last, last_ordinal = call.values[:5]
    between = between if between in "-–" else f" {between} "
    return f"{first}{ordinal}{between}{last}{last_ordinal} siècle"


def _french_ordinal(call: Call) -> str:
    """Return "2e" for {{2e}}, "XIXe siècle" for {{XIXe siècle}}."""
    text = call.name
    if match := _FRENCH_CENTURY.fullmatch(text):
        number, ordinal, century, era = match.groups("")
        era = " av. J.-C." if era else ""
        text = f"{number.upper()}{ordinal}{century}{era}"
    return " ".join([text, *filter(None, call.values)])


def _french_time(call: Call) -> str | None:
    """Return "14 h 30" for {{heure|14|30}}, "8 h 5 min 3 s" with seconds."""
    filled = list(filter(None, call.values))
    if call.named or filled != call.values[: len(filled)]:
        return None  # {{heure||30}} is 30 min.
    if len(filled) > 3 or not "".join(filled).isdigit():
        return None
    units = ("h", "min", "s") if len(filled) == 3 else ("h", "")
    parts = zip(filled, units, strict=False)
    return " ".join(f"{number} {unit}".strip() for number, unit in parts)


def _spanish_century(call: Call) -> str | None:
    """Return "siglo V a. C." for {{siglo|V|a|s}}."""
    number, era, word, *_ = [*call.values, "", "", ""]
    word = {"s": "siglo", "S": "Siglo"}.get(word)
    eras = {"": "", "a": " a. C.", "d": " d. C."}
    if not number or word is None or era not in eras:
        return None
    if call.named or call.values[3:]:
        return None
    return f"{word} {number}{eras[era]}"


def _labelled(call: Call) -> str | None:
    """Return "German: Text" for {{lang-de|Text}} and {{langx|de|Text}}.

    {{lang-ru|текст|tekst|text}} is "Russian: текст, romanized: tekst, lit.
    'text'". Other wikis show the text alone.
    """
    code, values = call.name.removeprefix("lang-"), call.values
    if call.name == "langx":
        code, *values = values or [""]
    if _code(call.language) != "en":
        return values[0] if values else None
    language = _WORDS["languages"]["en"].get(code.partition("-")[0])
    text, romanized, meaning, *more = [*values, "", "", ""]
    if not (language and text) or any(more):
        return None
    if romanized and text < "\u0250":  # Latin letters: it means something else
        return None
    text = f"{language}: {text}"
    if romanized := romanized or call.named.get("translit", ""):
        text += f", romanized: {romanized}"
    if meaning := meaning or call.named.get("lit", ""):
        text += f", lit. '{meaning}'"
    return text


def _german_labelled(call: Call) -> str | None:
    """Return "englisch Text" for {{enS|Text}}; None with a translation."""
    language = _WORDS["languages"]["de"][call.name[:-1]]
    if "de" in call.named or any(call.values[1:]):
        return None
    return _filled(f"{language} {{}}", call)


def _nihongo(call: Call) -> str | None:
    """Return "Tokyo (東京, Tōkyō)" for {{nihongo|Tokyo|東京|Tōkyō}}.

    With lead=yes it is "Tokyo (Japanese: 東京, Hepburn: Tōkyō)".
    """
    text, *parts = call.values or [""]
    if call.named.keys() - {"lead"} or any(parts[3:]):
        return None
    if call.named:
        labels = ("Japanese: ", "Hepburn: ", "")
        parts = [v and a + v for a, v in zip(labels, parts, strict=False)]
    inside = ", ".join(filter(None, parts))
    return f"{text} ({inside})" if text and inside else text or inside


def _ship(call: Call) -> str | None:
    """Return "USS Hornet (CV-12)" for {{ship|USS|Hornet|CV-12}}, {{USS|...}}.

    A fourth argument of 2 shows the name alone, of 6 all but the number.
    """
    values = call.values
    if call.name != "ship":
        values = [call.name.upper(), *values]
    prefix, name, number, shown, *_ = [*values, "", "", "", ""]
    if not name or call.named or shown not in ("", "2", "6"):
        return None
    text = name if shown == "2" else f"{prefix} {name}"
    return f"{text} ({number})" if number and not shown else text


def _harvard(call: Call) -> str | None:
    """Return "Ahmes (1905)" for {{harvtxt|Ahmes|1905}}, a citation."""
    *names, year = list(filter(None, call.values)) or [""]
    if not names or not re.fullmatch(r"\d{4}[a-z]?", year):
        return None
    if len(names) > 3:
        names = [f"{names[0]} et al."]
    authors = " & ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    for key, label in (("p", "p. "), ("pp", "pp. "), ("loc", "")):
        if call.named.get(key):
            year += f", {label}{call.named[key]}"
    if call.name in ("harvtxt", "harvp", "harvcoltxt"):
        return f"{authors} ({year})"
    text = f"{authors} {year}"
    is_bare = call.name.startswith(("harvnb", "harvcolnb"))
    return text if is_bare else f"({text})"


def _link(call: Call) -> str | None:
    """Return the label of a link to another wiki, as {{ill|Name|de}}."""
    keys = ("lt", "label", "نص", "عر", "texte", "fr", "text", "redigir")
    if label := call.named_as(*keys):
        return label
    filled = list(filter(None, call.values))
    # The older form has the code first: {{ill|de|Name|label}}.
    if len(filled) > 1 and re.fullmatch(r"[a-z]{2,3}", filled[0]):
        return filled[2] if len(filled) > 2 else filled[1]
    return re.sub(r" \([^()]*\)$", "", filled[0]) if filled else None


def _local_link(call: Call) -> str | None:
    """Return the label of {{link-en|名|Name|label}}, 名 without one."""
    values = call.values
    return next(filter(None, (*values[2:3], *values[:1])), None)


def _translated_link(call: Call) -> str | None:
    """Return the label of {{tsl|en|Name|名|label}} and {{нп5|Name|label}}."""
    values = call.values
    if len(values) > 1 and re.fullmatch(r"[a-z]{2,3}", values[0]):
        return next(filter(None, reversed(values[1:])), None)
    return next(filter(None, (*values[1:2], *values[:1])), None)


def _height(call: Call) -> str | None:
    """Return "115,5 m" for {{Höhe|115.5|DE-NHN}}."""
    value = call.first.replace(".", ",")
    return f"{value} m" if value and not call.named else None


def quotation(call: Call) -> str:
    """Return the quoted text, a paragraph of its own, without its source."""
    return call.named_as("text", "quote", "Text") or call.first


_MUSIC = {"flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯"}

# Names, with underscores for spaces, and what renders them, by the language of
# the wiki; "" for the names that mean the same in all of them. A text stands
# for itself, with the first argument in place of {}.
_RENDERED: dict[str, dict[str, Renderer | str]] = {
    "": {
        """nowrap nobr nobreak small smaller big large larger sc smallcaps
        small_caps abbr abbrlink tooltip visible_anchor vanchor nobold sub
        mono var mvar math strong em bold ital noitalic noitalics center
        underline u keypress kbd key samp tt crossreference comment
        abréviation abréviation_discrète cp932フォント jis2004フォント
        補助漢字フォント 要出典範囲 ルビ ruby nts
        text typo not_a_typo as_written bdi dfn term
        إنج فرن ألم روس لات يون إيط إسب فار تر عبر nastaliq unicode
        tlit script vr uni hebrew polytonic pre2 пнл""": "{}",
        """lang langue lang2 rtl-lang script/arabic wikt-lang langwithname
        lang-short color colour font_color fontcolor resize fontsize langi
        font لغ lingua""": _in_language,
        "quote quotation bquote blockquote cquote zitat cytat": quotation,
        "transl transliteration translit xlit": _transliterated,
        "linktext chem chem2": _joined(""),
        "frac sfrac fraction": _fraction,
        "e x10^ x10 10^ sup": _raised,
        "ill interlanguage_link interlanguage_link_multi illm": _link,
        "le internal_link_helper": _local_link,
        "仮リンク وإو وصلة_إنترويكي lien ill2 liên_kết_ngôn_ngữ": _link,
        """tsl translink нп5 нп3 нп нп2 нп4 не_переведено не_переведено_2
        нп1 не_переведено_3 не_переведено_5 ll 內部連結""": _translated_link,
        "angbr angle": "⟨{}⟩",
        "' '- apostrophe": "'",
        "'s": "'s",
        "'_\" -'_\"": "'\"",
        "\"_' -\"_'": "\"'",
        '-" "-': '"',
        "-' '-": "'",
        """nbsp space spaces thinsp thin_space hair_space hairsp nnbsp 0 sp
        pipe !""": " ",
        "snd snds spnd sndash spaced_ndash spaced_en_dash dash": " – ",
        "– ndash en_dash": "–",
        "mdash mdashb em_dash —- ---": "—",
        "тире — spaced_mdash spaced_em_dash": " — ",
        "· dot middot • bull bullet": " · ",
        "=": "=",
        "ellipsis ...": "…",
        "minus": "−",
        "times": "×",
        "zwj": "\u200d",
        "zwnj": "\u200c",
        "bibleref bibleverse": _joined(" ", most=2),
        "読み仮名 読み仮名_ruby不使用 読み": lambda call: (
            "{}（{}）".format(*call.values[:2]) if call.values[1:] else None
        ),
        """harvtxt harvp harvcoltxt harv harvcol harvnb
        harvcolnb""": _harvard,
        """ship uss hms ss mv rms sms hmas hmcs hmnzs usns usat gts ms mts ins
        uscgc ijn hmt rrs rfa ov""": _ship,
        "langx": _labelled,
        "music": lambda call: _MUSIC.get(call.first.lower()),
        "convert cvt": _measure,
        "val": _scientific,
    },
    # {{ألمانية|Text}} shows "in German: Text".
    "ar": {
        name: f"(بال{name}: {{}})"
        for name in """ألمانية إنجليزية إنكليزية فرنسية إيطالية إسبانية روسية
        لاتينية يونانية فارسية تركية عبرية برتغالية هولندية بولندية""".split()
    },
    "de": {
        '"': "„{}“",
        "höhe": _height,
        "formatzahl": _number_with_unit,
        " ".join(f"{code}s" for code in _WORDS["languages"]["de"]): (
            _german_labelled
        ),
    },
    "en": {
        "as_of asof": _as_of,
        "j": "{}",
        "circa c. c ca. ca": _joined(" – c. ", "c. "),
        "floruit fl. fl": _joined(" – ", "fl. ", most=2),
        "reign r.": _joined(" – ", "r. ", most=2),
        "nihongo nihongo_core": _nihongo,
        """citation_needed_span cn-span clarify_span fact_span dubious_span
        disputed_span""": "{}",
        "sic": _joined(""),
        "eqm": "⇌",
        "us$ usd": "US${}",
        "a$ aud": "A${}",
        "gbp £ pound": "£{}",
        "euro €": "€{}",
        "inr ₹ indian_rupee": "₹{}",
        "us_patent": "U.S. Patent {}",
    },
    "es": {
        "siglo": _spanish_century,
        "esd": "{}",
        "cita": quotation,
        "unidad": _number_with_unit,
    },
    "fr": {
        "date date- date_rapide jour": _french_date,
        "heure": _french_time,
        "s- s siècle -s- -s": _french_century,
        "sp- sp": _french_centuries,
        "unité nombre nb": _number_with_unit,
        "exp": _raised,
        "av_jc av_j.-c.": "av. J.-C.",
        "ap_jc ap_j.-c.": "apr. J.-C.",
        "n° numéro": "no {}",
        "citation": "« {} »",
        _WORDS["remarks"]["fr"]: "{}",
    },
    "it": {_WORDS["remarks"]["it"]: "{}"},
    "nl": {"bron? feit": "{}"},
    "pl": {"liczba": _number_with_unit},
    "pt": {"fmtn": _number_with_unit},
}
_BY_NAME = {c: words.by_word(t.items()) for c, t in _RENDERED.items()}

_FRENCH_CENTURY = re.compile(r"([ivx]+)(er|e)( siècle)?( av\. j\.-c\.)?")
# Patterns of names, and what renders them.
_FAMILIES: dict[str, dict[str, Renderer]] = {
    "": {
        r"formatnum:.*": _formatted_number,
        r"lang-[a-z-]+": _labelled,
        r"link-[a-z-]+|internal link helper.*": _local_link,
    },
    # {{1er}}, {{2e}} and {{e}}, {{me}} in M{{me}}; {{XIXe siècle}} and {{Ve
    # siècle av. J.-C.}}.
    "fr": {
        r"\d*(?:er|re|e|nd|nde|ème)|o|os|me|mes|lle|lles|gr": _french_ordinal,
        _FRENCH_CENTURY.pattern: _french_ordinal,
    },
}


def renderer_of(name: str, language: str) -> Renderer | None:
    """Return the function that renders templates of this name, if any."""
    for code in (_code(language), ""):
        if found := _BY_NAME.get(code, {}).get(name):
            is_text = isinstance(found, str)
            return functools.partial(_filled, found) if is_text else found
        for pattern, renderer in _FAMILIES.get(code, {}).items():
            if re.fullmatch(pattern, name):
                return renderer
    return None
