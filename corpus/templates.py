"""The text of inline templates, such as "5 miles" for {{convert|5|mi|km}}.

A dump does not hold what templates show. Most of them show no text of the
article; a small table renders those that stand inside of sentences and whose
text is plain from their arguments. Sentences with any other template are
dropped by repairs.py, unless the template's name or place tells that it is a
remark, such as {{citation needed}}.
"""

import re
from collections.abc import Callable

from corpus import measures

# From positional and named arguments, as text, to the text of a template.
Renderer = Callable[[list[str], dict[str, str]], str | None]


_NAME = re.compile(r"\{\{\s*(?:subst:|safesubst:)?\s*([^|{}<>\[\]\n]*)")

# Templates that show no word of a sentence: remarks of editors, notes, icons,
# layout. Matched from the start of the name.
SILENT = re.compile(
    r"""\A(?:cit(?:e|ation|ar|at|áció)\b|sfn|harv|ref(?!erence\ desk)|efn
    |note?\b|rp$|r$|fact$|cn$|fn|\#tag:ref|dubious|disput|clarif|who\??$|when\??$
    |which\??$|where\??$|why\??$|how\??$|by\ whom|whom|says\ who|according\ to
    |attribut|failed|verif|vague|weasel|peacock|unreliable|better|update
    |page[s]?\b|full\b|dead\ |bare\ |improper|inconsist|contradict|original
    |synth|speculat|neutral|pov|specify|cleanup|copyedit|tone|undue|lopsided
    |unbalanced|importance|opinion|awkward|ambig|jargon|technical|expand
    |missing|require|time\ fact|year\ needed|definition|example|elucidate
    |inflation-?fn|wayback|webarchive|doi|isbn|issn|oclc|bibcode|arxiv|pmid
    |jstor|open\ access|closed\ access|registration|subscription|anchor
    |infobox|taxobox|automatic\ taxobox|speciesbox|navbox|sidebar|chembox
    |div\ col
    |drugbox|geobox|main$|see\ also|further|details|about|for$|other\ uses
    |redirect|distinguish|hatnote|use\ |pp|short\ desc|multiple\ image|image
    |gallery|quote\ box|flagicon|flag\ icon|shy|zwsp|zwj|wbr|clear|-$|col-
    |nowrap\ (?:begin|end)|nobr\ (?:begin|end)|coord|portal|commons|wiki
    |sister|authority|default|category|listen|audio|sound|featured|good\ art
    |sic$|dn$|disambiguation\ needed|spoiler|external\ links|small\ ?refs
    |toc|end$|s-|ill-?icon|..\ icon$|edit$|unicode$|specialchars|contains
    |weblink|internet|literatur|belege|einzelnachweise|hauptartikel|siehe
    |lückenhaft|veraltet|zukunft|dead|toter|anker|weiterleitung
    |нет\ аи|источник|уточн|когда|кто|где|какой|чей|значимость|не\ аи|переход
    |прояснить|нп$|цитат|факт|основна|виж|якорь|основная|помолчи|достоверност
    |джерело|фактічна|требуемый|източник|нуждае
    |要|要出典|出典|脚注|refnest|refn|anchors|独自研究|疑問点|いつ|誰|どこ|r\b|main2
    |seealso|節|参照方法|正確性|誰2|信頼性|enlink|来源|來源|notetag|notefoot|fact|谁|誰|何时
    |何時|哪里|查证|查證|rp|noteta|cref|main\ article
    |بحاجة|مصدر|مفصلة|توضيح|هامش|استشهاد|مراجع|وصلة|متى|من\ |تحقق|رئيسي
    |référence\ (?:nécessaire|souhaitée|incomplète|à\ confirmer)$|refnec$
    |réf|quand|qui$|où$|lequel|précision|pas\ clair|à\ sourcer|source
    |article\ détaillé|voir|senza\ fonte|chiarire|quando|chi$|dove$|vedi
    |odn|fakt|kto$|kiedy|carece|quem$|quando|onde$|cita\ req|cuándo|quién
    |bron\?|źródł|przypis|niet\ ref|utöver|källa|når|hvem|kilde)
    |\A.*(?:needed|\binline|\?)$""",
    re.VERBOSE,
)
PRONUNCIATION = re.compile(r"ipa-|ipac-|respell|pron\b|pronunciation|audio-ipa")


def name_of(source: str) -> str:
    """Return the name of a template, in lower case, from its source."""
    match = _NAME.match(source)
    return match[1].replace("_", " ").strip().lower() if match else ""


def is_quote(name: str) -> bool:
    """Return whether templates of this name hold a paragraph of quoted text."""
    return _RENDERERS.get(name) is _quotation


def is_remark(before: str, after: str) -> bool:
    """Return whether a template is a remark, by the characters around it.

    "in 1990.{{x}} He" and "most{{x}} people" lose nothing, "{{x}} people" and
    "has {{x}} people" may have lost a number. One character before it and two
    after it are looked at.
    """
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
    renderer = renderer_of(name)
    if renderer is measures.convert and language not in ("en", "simple"):
        named = {**named, "abbr": "on"}
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


_MONTHS = """January February March April May June July August September
    October November December""".split()


def _as_of(values: list[str], named: dict[str, str]) -> str | None:
    """Return "As of 5 March 2014" for {{as of|2014|3|5}}."""
    if named.get("alt"):
        return named["alt"]
    parts = list(filter(None, values))
    if not parts:
        return None
    if len(parts) > 1 and parts[1].isdigit() and 1 <= int(parts[1]) <= 12:
        parts[1] = _MONTHS[int(parts[1]) - 1]
    start = "Since " if named.get("since") else "As of "
    if named.get("lc"):
        start = start.lower()
    if named.get("df", "").lower() == "us" and len(parts) == 3:
        return f"{start}{parts[1]} {parts[2]}, {parts[0]}"
    return start + " ".join(parts[2::-1])


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


def _scientific(values: list[str], named: dict[str, str]) -> str | None:
    """Return "6.24×10¹⁸ kg" for {{val|6.24|e=18|u=kg}}."""
    if len(values) > 2 or not values or "ul" in named or "up" in named:
        return None
    text = measures.grouped(values[0])
    if len(values) == 2:
        text += "±" + values[1]
    if power := named.get("e", "").strip():
        text += "×10" + power.translate(RAISED)
    unit = named.get("u", "").strip()
    return f"{text} {unit}" if unit else text


def _nihongo(values: list[str], named: dict[str, str]) -> str:
    """Return "Tokyo (東京, Tōkyō)" for {{nihongo|Tokyo|東京|Tōkyō}}."""
    inside = ", ".join(filter(None, values[1:3]))
    if not values or not values[0]:
        return inside
    return f"{values[0]} ({inside})" if inside else values[0]


def _link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of a link to another wiki, as {{ill|Name|de}}."""
    for key in ("lt", "label", "نص", "عر", "trad", "text", "redigir"):
        if named.get(key):
            return named[key]
    filled = list(filter(None, values))
    # The older form has the code first: {{ill|de|Name|label}}.
    if len(filled) > 1 and re.fullmatch(r"[a-z]{2,3}", filled[0]):
        return filled[2] if len(filled) > 2 else filled[1]
    return re.sub(r" \([^()]*\)$", "", filled[0]) if filled else None


def _translated_link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of {{tsl|en|Name|label}} and {{нп5|Name|label}}."""
    if len(values) > 1 and re.fullmatch(r"[a-z]{2,3}", values[0]):
        values = values[1:]
    return next(filter(None, (*values[1:2], *values[:1])), None)


def _height(values: list[str], named: dict[str, str]) -> str | None:
    """Return "115,5 m" for {{Höhe|115.5|DE-NHN}}."""
    value = _argument(1, values, named)
    return f"{value.replace('.', ',')} m" if value else None


def _quotation(values: list[str], named: dict[str, str]) -> str:
    """Return the quoted text, without its source."""
    for key in ("text", "quote", "Text"):
        if named.get(key):
            return named[key]
    return _argument(1, values, named)


_MUSIC = {"flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯"}

_SHIPS = """uss hms ss mv rms sms hmas hmcs hmnzs usns usat gts ms mts ins uscgc
    ijn hmt rrs rfa ov"""

# Names, with underscores for spaces, and what renders them.
_RENDERED: list[tuple[str, Renderer]] = [
    (
        """nowrap nobr nobreak j small smaller big large larger sc smallcaps
        small_caps abbr abbrlink tooltip visible_anchor vanchor nobold sub mono
        var mvar math strong em bold ital noitalic noitalics center underline u
        citation_needed_span cn-span flag flagcountry flagu keypress kbd key
        samp tt crossreference comment abréviation refnec référence_nécessaire
        référence_souhaitée cp932フォント jis2004フォント
        補助漢字フォント 要出典範囲 ルビ ruby le internal_link_helper nts
        text typo not_a_typo as_written bdi dfn term
        إنج فرن ألم روس لات يون إيط إسب فار تر عبر nastaliq unicode
        tlit script vr uni hebrew polytonic pre2 пнл""",
        _around("", ""),
    ),
    (
        """lang langue lang2 rtl-lang langx script/arabic wikt-lang langwithname
        lang-short color colour font_color fontcolor resize fontsize langi font
        لغ lingua""",
        _language,
    ),
    ("quote quotation bquote blockquote cquote zitat cytat cita", _quotation),
    (
        "transl transliteration translit xlit",
        lambda v, n: next(filter(None, reversed(v)), n.get("text")),
    ),
    ("linktext chem chem2", _joined("")),
    ("date jour nombre unité nb heure", _joined(" ")),
    ("convert cvt", measures.convert),
    ("frac sfrac fraction", _fraction),
    ("val", _scientific),
    ("e", _raised("×10")),
    ("sup", _raised("")),
    ("as_of asof", _as_of),
    ("circa c. ca. ca", _joined(" – ", "c. ", most=2)),
    ("floruit fl. fl", _joined(" – ", "fl. ", most=2)),
    ("reign r.", _joined(" – ", "r. ", most=2)),
    ("nihongo nihongo_core", _nihongo),
    ("ill interlanguage_link interlanguage_link_multi illm", _link),
    ("仮リンク وإو lien ill2 liên_kết_ngôn_ngữ", _link),
    (
        """tsl translink нп5 нп3 нп нп2 нп4 не_переведено не_переведено_2 нп1
        не_переведено_3 не_переведено_5 ll 內部連結""",
        _translated_link,
    ),
    (
        "読み仮名 読み仮名_ruby不使用 読み",
        lambda v, n: f"{v[0]}（{v[1]}）" if len(v) > 1 else None,
    ),
    ("siècle", lambda v, n: f"{v[0]}e siècle" if v and v[0] else None),
    ('"', _around("„", "“")),
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
    ("eqm", _text("⇌")),
    ("us$ usd", _around("US$", "")),
    ("a$ aud", _around("A$", "")),
    ("gbp £ pound", _around("£", "")),
    ("euro €", _around("€", "")),
    ("inr ₹ indian_rupee", _around("₹", "")),
    ("n° numéro", _around("n° ", "")),
    (
        "ship bibleref bibleverse oldstyledate",
        lambda values, named: " ".join(filter(None, values[:2])),
    ),
    ("us_patent", _around("U.S. Patent ", "")),
    ("höhe", _height),
    ("1er", _text("1er")),
    ("av_jc av_j.-c.", _text("av. J.-C.")),
    ("music", lambda v, n: _MUSIC.get((v or [""])[0].lower())),
    *((name, _around(f"{name.upper()} ", "")) for name in _SHIPS.split()),
    *(
        (f"{century.lower()}e_siècle", _text(f"{century}e siècle"))
        for century in "XV XVI XVII XVIII XIX XX XXI".split()
    ),
]
_RENDERERS = {
    name.replace("_", " "): renderer
    for names, renderer in _RENDERED
    for name in names.split()
}

# {{enS|Text}} of the German wiki names the language.
_GERMAN_LANGUAGES = {
    "en": "englisch", "la": "lateinisch", "fr": "französisch",
    "el": "griechisch", "grc": "altgriechisch", "ru": "russisch",
    "it": "italienisch", "es": "spanisch", "pl": "polnisch", "ar": "arabisch",
    "he": "hebräisch", "tr": "türkisch", "cs": "tschechisch",
    "ja": "japanisch", "zh": "chinesisch", "nl": "niederländisch",
    "pt": "portugiesisch", "sv": "schwedisch", "da": "dänisch",
    "no": "norwegisch", "fi": "finnisch", "hu": "ungarisch", "ro":
    "rumänisch", "uk": "ukrainisch", "fa": "persisch", "sr": "serbisch",
    "hr": "kroatisch", "sl": "slowenisch", "sk": "slowakisch",
    "bg": "bulgarisch", "ko": "koreanisch", "hi": "hindi",
}  # fmt: skip
_LANGUAGE_TEMPLATE = re.compile(r"lang-[a-z-]+$")
_ARABIC_LANGUAGE = re.compile(
    "(ألمانية|إنجليزية|إنكليزية|فرنسية|إيطالية|إسبانية|روسية|لاتينية|يونانية"
    "|فارسية|تركية|عبرية|برتغالية|هولندية|بولندية)$"
)
_LINK_TEMPLATE = re.compile(r"link-[a-z-]+$|internal link helper")
_GERMAN_LANGUAGE = re.compile(r"([a-z]{2,3})s$")


def renderer_of(name: str) -> Renderer | None:
    """Return the function that renders templates of this name, if any."""
    found = _RENDERERS.get(name)
    if found:
        return found
    if name.startswith("formatnum:"):
        number = name.partition(":")[2]
        return _text(measures.grouped(number.replace(",", "")))
    if match := _ARABIC_LANGUAGE.match(name):
        return _around(f"(بال{match[1]}: ", ")")
    if _LANGUAGE_TEMPLATE.match(name) or _LINK_TEMPLATE.match(name):
        return _around("", "")
    if match := _GERMAN_LANGUAGE.fullmatch(name):
        if match[1] in _GERMAN_LANGUAGES:
            return _around(_GERMAN_LANGUAGES[match[1]] + " ", "")
    return None
