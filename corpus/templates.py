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

from corpus import measures, numbers, words

# From positional and named arguments, as text, to the text of a template.
Renderer = Callable[[list[str], dict[str, str]], str | None]


_NAME = re.compile(r"\{\{\s*(?:subst:|safesubst:)?\s*([^|{}<>\[\]\n]*)")
_PARTS = re.compile(r"\{\{|\}\}|\[\[|\]\]|\||=")


def _names(text: str) -> frozenset[str]:
    """Return names of templates, which have underscores for spaces."""
    return frozenset(name.replace("_", " ") for name in text.split())


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
    notes, remarks = _silent_names(_code(language))
    if name in notes:
        return True
    if name in remarks or name.endswith(_REMARK_ENDS) or name[:5] == "cite ":
        return _is_date(positional(source))
    if "display" in source and _BESIDE_TITLE.search(source):
        return True
    return _DATED.fullmatch(source) is not None


@functools.cache
def _silent_names(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of notes and of remarks in a wiki."""
    notes, remarks = (
        _names(f"{table['']} {table.get(code, '')}")
        for table in (_WORDS["notes"], _WORDS["remarks"])
    )
    return notes, remarks


@functools.cache
def _code(language: str) -> str:
    """Return the code by which the tables here know a wiki."""
    code = language.lower().partition("-")[0]
    return "en" if code == "simple" else code


def is_quote(name: str, language: str) -> bool:
    """Return whether templates of this name hold a paragraph of quoted text."""
    return renderer_of(name, language) is _quotation


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


def render(
    name: str, values: list[str], named: dict[str, str], language: str
) -> str | None:
    """Return the text of a template, None if its arguments do not tell it."""
    renderer = renderer_of(name, language)
    if renderer is None:
        return None
    return renderer([value.strip() for value in values], named) or None


def _argument(number: int, values: list[str], named: dict[str, str]) -> str:
    default = values[number - 1] if len(values) >= number else ""
    return named.get(str(number), default)


def _text(text: str) -> Renderer:
    """Return a renderer for templates that always show the same text."""
    return lambda values, named: text


def _around(left: str, right: str) -> Renderer:
    """Return a renderer for the first argument between two texts."""

    def render_around(values: list[str], named: dict[str, str]) -> str:
        value = _argument(1, values, named)
        return left + value + right if value else ""

    return render_around


def _joined(between: str, prefix: str = "", most: int = 99) -> Renderer:
    """Return a renderer that joins the first positional arguments."""

    def render_joined(values: list[str], named: dict[str, str]) -> str:
        filled = list(filter(None, values))[:most]
        return prefix + between.join(filled) if filled else ""

    return render_joined


def _language(values: list[str], named: dict[str, str]) -> str:
    """Return the text of {{lang|de|Text}}."""
    return named.get("2") or named.get("text") or _argument(2, values, named)


def _local_link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of {{link-en|名|Name|label}}, 名 without one."""
    return next(filter(None, (*values[2:3], *values[:1])), None)


_MONTHS = """January February March April May June July August September
    October November December""".split()


def _as_of(values: list[str], named: dict[str, str]) -> str | None:
    """Return "As of 5 March 2014" for {{as of|2014|3|5}}."""
    if named.get("alt"):
        return named["alt"]
    parts = list(filter(None, values))
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


def _old_date(values: list[str], named: dict[str, str]) -> str | None:
    """Return "2 May [O.S. 20 April] 1705"."""
    day, year, old, *more = [*values, "", "", ""]
    if not (day and year and old) or any(more) or named:
        return None
    return f"{day} [O.S. {old}] {year}"


def _fraction(values: list[str], named: dict[str, str]) -> str | None:
    """Return "2 1/4" for {{frac|2|1|4}}, "1/4" for {{frac|4}}."""
    parts = list(filter(None, values))
    if not parts or len(parts) > 3:
        return None
    if len(parts) == 1:
        return f"1/{parts[0]}"
    whole = f"{parts[0]} " if len(parts) == 3 else ""
    return f"{whole}{parts[-2]}/{parts[-1]}"


RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def _raised(prefix: str) -> Renderer:
    """Return a renderer for raised digits, such as "×10²⁴" for {{e|24}}."""

    def render_raised(values: list[str], named: dict[str, str]) -> str:
        value = _argument(1, values, named)
        return prefix + value.translate(RAISED) if value else ""

    return render_raised


def _scientific(
    values: list[str], named: dict[str, str], language: str
) -> str | None:
    """Return "6.24×10¹⁸ kg" for {{val|6.24|e=18|u=kg}}."""
    if not 1 <= len(values) <= 2 or named.keys() - {"e", "u"}:
        return None
    parts = [numbers.formatted(value, language) for value in values]
    if None in parts or not parts[-1][-1:].isdecimal():
        return None
    text = "±".join(parts)
    if power := named.get("e", "").strip():
        text = f"({text})" if len(parts) > 1 else text
        text += "×10" + power.translate(RAISED)
    unit = named.get("u", "").strip()
    return f"{text} {unit}" if unit else text


def _abbreviated_measure(
    values: list[str], named: dict[str, str], language: str
) -> str | None:
    """Return "5 km" for {{cvt|5|km|mi}}."""
    return measures.convert(values, {"abbr": "on", **named}, language)


def _magic_number(
    values: list[str], named: dict[str, str], language: str, text: str
) -> str | None:
    """Return "12.345" for {{formatnum:12345}} in German."""
    if values == ["R"]:
        return text
    if values not in ([], ["NOSEP"]):
        return None
    return numbers.formatted(text, language, separates=not values)


def _number_with_unit(
    values: list[str], named: dict[str, str], language: str
) -> str | None:
    """Return "10 km²" for {{unité|10|km|2}}."""
    number, unit, power, *more = [*values, "", "", ""]
    is_number = re.fullmatch(r"[-−]?[\d ]+(?:[.,]\d+)?", number)
    if not is_number or any(more) or named or unit.isdigit():
        return None
    if unit in _BETWEEN_NUMBERS:
        return None
    if power and not re.fullmatch(r"[-−]?\d", power):
        return None
    number = number.replace(" ", "").replace("−", "-").replace(",", ".")
    text = numbers.formatted(number, language)
    return text and f"{text} {unit}{power.translate(RAISED)}".strip()


_BETWEEN_NUMBERS = frozenset("à a et e y ou o x × - – / + ± par por".split())


def _french_date(values: list[str], named: dict[str, str]) -> str | None:
    """Return "3 mars 1850" for {{date|3|mars|1850|en politique}}."""
    if values and values[0].isalpha():  # {{date|mars|1850}}
        values = ["", *values]
    day, month, year, *_ = [*values, "", "", ""]
    if re.fullmatch("0?[1-9]|1[012]", month):
        month = _FRENCH_MONTHS[int(month) - 1]
    is_day = re.fullmatch("(?:1er|0?[1-9]|[12][0-9]|3[01])?", day)
    if named or not is_day or month.lower() not in _FRENCH_MONTHS:
        return None
    day = "1er" if day in ("1", "01") else day.lstrip("0")
    return " ".join(filter(None, (day, month, year)))


_FRENCH_MONTHS = """janvier février mars avril mai juin juillet août septembre
    octobre novembre décembre""".split()


def _french_time(values: list[str], named: dict[str, str]) -> str | None:
    """Return "14 h 30" for {{heure|14|30}}, "8 h 5 min 3 s" with seconds."""
    filled = list(filter(None, values))
    if named or not filled or filled != values[: len(filled)]:
        return None  # {{heure||30}} is 30 min.
    if len(filled) > 3 or not "".join(filled).isdigit():
        return None
    units = ("h", "min", "s") if len(filled) == 3 else ("h", "")
    parts = zip(filled, units, strict=False)
    return " ".join(f"{number} {unit}".strip() for number, unit in parts)


def _century(after: str = "siècle", era: str = "") -> Renderer:
    """Return a renderer for {{s-|XIX|e}}, "XIXe siècle"."""

    def render_century(values: list[str], named: dict[str, str]) -> str | None:
        number, ordinal, *more = [*values, "", ""]
        number = number.upper()
        ordinal = ordinal or ("er" if number == "I" else "e")
        is_century = re.fullmatch("[IVX]+", number) and ordinal in ("e", "er")
        if not is_century or any(more) or named:
            return None
        return f"{number}{ordinal} {after}{era}"

    return render_century


def _spanish_century(values: list[str], named: dict[str, str]) -> str | None:
    """Return "siglo V a. C." for {{siglo|V|a|s}}."""
    number, era, word, *_ = [*values, "", "", ""]
    word = {"s": "siglo", "S": "Siglo"}.get(word)
    eras = {"": "", "a": " a. C.", "d": " d. C."}
    if not number or word is None or era not in eras or named or values[3:]:
        return None
    return f"{word} {number}{eras[era]}"


def _centuries(values: list[str], named: dict[str, str]) -> str | None:
    """Return "XVe au XVIe siècle" for {{sp-|XV|e|au|XVI|e}}."""
    if len(values) < 5 or any(values[5:]) or named:
        return None
    first, ordinal, between, last, last_ordinal = values[:5]
    between = between if between in "-–" else f" {between} "
    return f"{first}{ordinal}{between}{last}{last_ordinal} siècle"


def _harvard(pattern: str) -> Renderer:
    """Return a renderer for citations, such as {{harvtxt|Ahmes|1905}}."""

    def render_harvard(values: list[str], named: dict[str, str]) -> str | None:
        *names, year = list(filter(None, values)) or [""]
        if not names or not re.fullmatch(r"\d{4}[a-z]?", year):
            return None
        if len(names) > 3:
            names = [f"{names[0]} et al."]
        authors = " & ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        for key, label in (("p", "p. "), ("pp", "pp. "), ("loc", "")):
            if named.get(key):
                year += f", {label}{named[key]}"
        return pattern.format(authors, year)

    return render_harvard


def _with_error(values: list[str], named: dict[str, str]) -> str | None:
    """Return "goverment" for {{sic|goverm|ent}}, as it stood in the source."""
    return "".join(values)


def _nihongo(values: list[str], named: dict[str, str]) -> str | None:
    """Return "Tokyo (東京, Tōkyō)" for {{nihongo|Tokyo|東京|Tōkyō}}.

    With lead=yes it is "Tokyo (Japanese: 東京, Hepburn: Tōkyō)".
    """
    if named.keys() - {"lead"} or any(values[4:]):
        return None
    parts = values[1:4]
    if named:
        labels = ("Japanese: ", "Hepburn: ", "")
        parts = [v and a + v for a, v in zip(labels, parts, strict=False)]
    inside = ", ".join(filter(None, parts))
    if not values or not values[0]:
        return inside
    return f"{values[0]} ({inside})" if inside else values[0]


def _link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of a link to another wiki, as {{ill|Name|de}}."""
    for key in ("lt", "label", "نص", "عر", "texte", "fr", "text", "redigir"):
        if named.get(key):
            return named[key]
    filled = list(filter(None, values))
    # The older form has the code first: {{ill|de|Name|label}}.
    if len(filled) > 1 and re.fullmatch(r"[a-z]{2,3}", filled[0]):
        return filled[2] if len(filled) > 2 else filled[1]
    return re.sub(r" \([^()]*\)$", "", filled[0]) if filled else None


def _translated_link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of {{tsl|en|Name|名|label}} and {{нп5|Name|label}}."""
    if len(values) > 1 and re.fullmatch(r"[a-z]{2,3}", values[0]):
        return next(filter(None, reversed(values[1:])), None)
    return next(filter(None, (*values[1:2], *values[:1])), None)


def _labelled(
    code: str, values: list[str], named: dict[str, str]
) -> str | None:
    """Return "German: Text" for {{lang-de|Text}} in English.

    {{lang-ru|текст|tekst|text}} is "Russian: текст, romanized: tekst, lit.
    'text'".
    """
    language = _WORDS["languages"]["en"].get(code.partition("-")[0])
    text, romanized, meaning, *more = [*values, "", "", ""]
    if not (language and text) or any(more):
        return None
    if romanized and text < "\u0250":  # Latin letters: it means something else
        return None
    text = f"{language}: {text}"
    if romanized := romanized or named.get("translit", ""):
        text += f", romanized: {romanized}"
    if meaning := meaning or named.get("lit", ""):
        text += f", lit. '{meaning}'"
    return text


def _country(values: list[str], named: dict[str, str]) -> str | None:
    """Return the name of a country, None for a code such as FRA."""
    value = _argument(1, values, named)
    return None if value.isupper() else value


def _height(values: list[str], named: dict[str, str]) -> str | None:
    """Return "115,5 m" for {{Höhe|115.5|DE-NHN}}."""
    value = _argument(1, values, named)
    return None if named or not value else f"{value.replace('.', ',')} m"


def _quotation(values: list[str], named: dict[str, str]) -> str:
    """Return the quoted text, without its source."""
    for key in ("text", "quote", "Text"):
        if named.get(key):
            return named[key]
    return _argument(1, values, named)


_MUSIC = {"flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯"}


def _ship(values: list[str], named: dict[str, str]) -> str | None:
    """Return "USS Hornet (CV-12)" for {{ship|USS|Hornet|CV-12}}.

    A fourth argument of 2 shows the name alone, of 6 all but the number.
    """
    prefix, name, number, shown, *_ = [*values, "", "", "", ""]
    if not name or named or shown not in ("", "2", "6"):
        return None
    text = name if shown == "2" else f"{prefix} {name}"
    return f"{text} ({number})" if number and not shown else text


def _ship_of(prefix: str) -> Renderer:
    """Return a renderer for {{USS|Hornet|CV-12}}."""
    return lambda values, named: _ship([prefix, *values], named)


_SHIPS = """uss hms ss mv rms sms hmas hmcs hmnzs usns usat gts ms mts ins uscgc
    ijn hmt rrs rfa ov"""

# Names, with underscores for spaces, and what renders them, by the language of
# the wiki; "" for the names that mean the same in all of them.
_RENDERED: dict[str, list[tuple[str, Renderer]]] = {
    "": [
        (
            """nowrap nobr nobreak small smaller big large larger sc smallcaps
            small_caps abbr abbrlink tooltip visible_anchor vanchor nobold sub
            mono var mvar math strong em bold ital noitalic noitalics center
            underline u keypress kbd key samp tt crossreference comment
            abréviation abréviation_discrète cp932フォント jis2004フォント
            補助漢字フォント 要出典範囲 ルビ ruby nts
            text typo not_a_typo as_written bdi dfn term
            إنج فرن ألم روس لات يون إيط إسب فار تر عبر nastaliq unicode
            tlit script vr uni hebrew polytonic pre2 пнл""",
            _around("", ""),
        ),
        (
            """lang langue lang2 rtl-lang script/arabic wikt-lang langwithname
            lang-short color colour font_color fontcolor resize fontsize langi
            font لغ lingua""",
            _language,
        ),
        ("quote quotation bquote blockquote cquote zitat cytat", _quotation),
        (
            "transl transliteration translit xlit",
            lambda v, n: next(filter(None, reversed(v)), n.get("text")),
        ),
        ("linktext chem chem2", _joined("")),
        ("frac sfrac fraction", _fraction),
        ("e x10^ x10", _raised("×10")),
        ("10^", _raised("10")),
        ("sup", _raised("")),
        ("harvtxt harvp harvcoltxt", _harvard("{} ({})")),
        ("harv harvcol", _harvard("({} {})")),
        ("harvnb harvcolnb", _harvard("{} {}")),
        ("ill interlanguage_link interlanguage_link_multi illm", _link),
        ("le internal_link_helper", _local_link),
        ("仮リンク وإو وصلة_إنترويكي lien ill2 liên_kết_ngôn_ngữ", _link),
        (
            """tsl translink нп5 нп3 нп нп2 нп4 не_переведено не_переведено_2
            нп1 не_переведено_3 не_переведено_5 ll 內部連結""",
            _translated_link,
        ),
        (
            "読み仮名 読み仮名_ruby不使用 読み",
            lambda v, n: f"{v[0]}（{v[1]}）" if len(v) > 1 else None,
        ),
        ("angbr angle", _around("⟨", "⟩")),
        ("' '- apostrophe", _text("'")),
        ("'s", _text("'s")),
        ("'_\" -'_\"", _text("'\"")),
        ("\"_' -\"_'", _text("\"'")),
        ('-" "-', _text('"')),
        ("-' '-", _text("'")),
        (
            """nbsp space spaces thinsp thin_space hair_space hairsp nnbsp 0 sp
            pipe !""",
            _text(" "),
        ),
        ("snd snds spnd sndash spaced_ndash spaced_en_dash dash", _text(" – ")),
        ("– ndash en_dash", _text("–")),
        ("mdash mdashb em_dash —- ---", _text("—")),
        ("тире — spaced_mdash spaced_em_dash", _text(" — ")),
        ("· dot middot • bull bullet", _text(" · ")),
        ("=", _text("=")),
        ("ellipsis ...", _text("…")),
        ("minus", _text("−")),
        ("times", _text("×")),
        ("zwj", _text("\u200d")),
        ("zwnj", _text("\u200c")),
        (
            "bibleref bibleverse",
            lambda values, named: " ".join(filter(None, values[:2])),
        ),
        ("music", lambda v, n: _MUSIC.get((v or [""])[0].lower())),
        ("ship", _ship),
        *((name, _ship_of(name.upper())) for name in _SHIPS.split()),
    ],
    "de": [('"', _around("„", "“")), ("höhe", _height)],
    "en": [
        ("as_of asof", _as_of),
        ("oldstyledate", _old_date),
        ("j", _around("", "")),
        ("circa c. c ca. ca", _joined(" – c. ", "c. ")),
        ("floruit fl. fl", _joined(" – ", "fl. ", most=2)),
        ("reign r.", _joined(" – ", "r. ", most=2)),
        ("nihongo nihongo_core", _nihongo),
        ("flag flagcountry flagu", _country),
        ("langx", lambda v, n: _labelled((v or [""])[0], v[1:], n)),
        (
            """citation_needed_span cn-span clarify_span fact_span dubious_span
            disputed_span""",
            _around("", ""),
        ),
        ("sic", _with_error),
        ("eqm", _text("⇌")),
        ("us$ usd", _around("US$", "")),
        ("a$ aud", _around("A$", "")),
        ("gbp £ pound", _around("£", "")),
        ("euro €", _around("€", "")),
        ("inr ₹ indian_rupee", _around("₹", "")),
        ("us_patent", _around("U.S. Patent ", "")),
    ],
    "es": [
        ("siglo", _spanish_century),
        ("esd", _around("", "")),
        ("cita", _quotation),
    ],
    "fr": [
        ("date date- date_rapide jour", _french_date),
        ("heure", _french_time),
        ("s- s siècle", _century()),
        ("-s- -s", _century(era=" av. J.-C.")),
        ("sp- sp", _centuries),
        ("exp", _raised("")),
        ("av_jc av_j.-c.", _text("av. J.-C.")),
        ("ap_jc ap_j.-c.", _text("apr. J.-C.")),
        ("n° numéro", _around("no ", "")),
        ("citation", _around("« ", " »")),
        (_WORDS["remarks"]["fr"], _around("", "")),
    ],
    "it": [(_WORDS["remarks"]["it"], _around("", ""))],
    "nl": [("bron? feit", _around("", ""))],
}
_RENDERERS = {
    code: {
        name: renderer for names, renderer in table for name in _names(names)
    }
    for code, table in _RENDERED.items()
}
# The same of templates that write numbers as the wiki does.
_WITH_NUMBERS = {
    "": {
        "convert": measures.convert,
        "cvt": _abbreviated_measure,
        "val": _scientific,
    },
    "de": {"formatzahl": _number_with_unit},
    "es": {"unidad": _number_with_unit},
    "fr": dict.fromkeys(("unité", "nombre", "nb"), _number_with_unit),
    "pl": {"liczba": _number_with_unit},
    "pt": {"fmtn": _number_with_unit},
}

_ARABIC_LANGUAGE = re.compile(
    "(ألمانية|إنجليزية|إنكليزية|فرنسية|إيطالية|إسبانية|روسية|لاتينية|يونانية"
    "|فارسية|تركية|عبرية|برتغالية|هولندية|بولندية)"
)
_LANGUAGE_TEMPLATE = re.compile(r"lang-([a-z-]+)")
_LINK_TEMPLATE = re.compile(r"link-[a-z-]+|internal link helper.*")
_GERMAN_LANGUAGE = re.compile(r"([a-z]{2,3})s")
# {{1er}}, {{2e}} and {{e}}, {{me}} in M{{me}}; {{XIXe siècle}} and {{Ve siècle
# av. J.-C.}}.
_FRENCH_ORDINAL = re.compile(
    r"\A(?:\d*(?:er|re|e|nd|nde|ème)|o|os|me|mes|lle|lles|gr)"
)
_FRENCH_CENTURY = re.compile(r"\A([ivx]+)(er|e)( siècle)?( av\. j\.-c\.)?")


def renderer_of(name: str, language: str) -> Renderer | None:
    """Return the function that renders templates of this name, if any."""
    code = _code(language)
    if found := _renderer_of_family(name, code):
        return found
    for key in (code, ""):
        if found := _RENDERERS.get(key, {}).get(name):
            return found
        if found := _WITH_NUMBERS.get(key, {}).get(name):
            return functools.partial(found, language=language)
    if name.startswith("formatnum:"):
        text = name.partition(":")[2].strip()
        return functools.partial(_magic_number, language=language, text=text)
    if match := _LANGUAGE_TEMPLATE.fullmatch(name):
        if code == "en":
            return lambda values, named: _labelled(match[1], values, named)
        return _around("", "")
    if _LINK_TEMPLATE.fullmatch(name):
        return _local_link
    return None


def _renderer_of_family(name: str, code: str) -> Renderer | None:
    """Return the renderer of one of many templates of a kind in a wiki."""
    if code == "ar" and (match := _ARABIC_LANGUAGE.fullmatch(name)):
        return _around(f"(بال{match[1]}: ", ")")
    if code == "de" and (match := _GERMAN_LANGUAGE.fullmatch(name)):
        # {{enS|Text}} names the language.
        if named := _WORDS["languages"]["de"].get(match[1]):
            show = _around(named + " ", "")
            # A translation may follow.
            return lambda values, named: (
                None
                if any(values[1:]) or "de" in named
                else show(values, named)
            )
    if code == "fr" and _FRENCH_ORDINAL.fullmatch(name):
        return lambda values, named: " ".join([name, *filter(None, values)])
    if code == "fr" and (match := _FRENCH_CENTURY.fullmatch(name)):
        number, ordinal, century, era = match.groups("")
        era = " av. J.-C." if era else ""
        text = f"{number.upper()}{ordinal}{century}{era}"
        return lambda values, named: " ".join([text, *filter(None, values)])
    return None
