"""The text of inline templates, such as "5 miles" for {{convert|5|mi|km}}.

A dump does not hold what templates show. Most of them show no text of the
article; a small table renders those that stand inside of sentences and whose
text is plain from their arguments. Sentences with any other template are
dropped by repairs.py, unless the template's name or place tells that it is a
remark, such as {{citation needed}}.
"""

import re
from collections.abc import Callable

# Positional arguments and named arguments, as text.
Arguments = tuple[list[str], dict[str, str]]
Renderer = Callable[[list[str], dict[str, str]], str | None]


# --- Names ------------------------------------------------------------------
_NAME = re.compile(r"\{\{\s*(?:subst:|safesubst:)?\s*([^|{}<>\[\]\n]*)")

# Templates that show no word of a sentence: remarks of editors, notes, icons,
# layout. Matched from the start of the name.
_SILENT = re.compile(
    r"""(?:cit(?:e|ation|ar|at|áció)\b|sfn|harv|ref(?!erence\ desk)|efn|note?\b
    |rp$|r$|fact$|cn$|fn|#tag:ref|dubious|disput|clarif|who\??$|when\??$
    |which\??$|where\??$|why\??$|how\??$|by\ whom|whom|says\ who|according\ to
    |attribut|failed|verif|vague|weasel|peacock|unreliable|better|update
    |page[s]?\b|full\b|dead\ |bare\ |improper|inconsist|contradict|original
    |synth|speculat|neutral|pov|specify|cleanup|copyedit|tone|undue|lopsided
    |unbalanced|importance|opinion|awkward|ambig|jargon|technical|expand
    |missing|require|time\ fact|year\ needed|definition|example|elucidate
    |inflation-?fn|wayback|webarchive|doi|isbn|issn|oclc|bibcode|arxiv|pmid
    |jstor|open\ access|closed\ access|registration|subscription|anchor
    |infobox|taxobox|automatic\ taxobox|speciesbox|navbox|sidebar|chembox
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
    |джерело|фактічна|требуемый
    |要|要出典|出典|脚注|refnest|refn|anchors|独自研究|疑問点|いつ|誰|どこ|r\b|main2
    |seealso|節|参照方法|正確性|誰2|信頼性|来源|來源|notetag|notefoot|fact|谁|誰|何时
    |何時|哪里|查证|查證|rp|noteta|cref|main\ article
    |بحاجة|مصدر|مفصلة|توضيح|هامش|استشهاد|مراجع|وصلة|متى|من\ |تحقق|رئيسي
    |référence\ (?:nécessaire|souhaitée|incomplète|à\ confirmer)$|refnec$
    |réf|quand|qui$|où$|lequel|précision|pas\ clair|à\ sourcer|source
    |article\ détaillé|voir|senza\ fonte|chiarire|quando|chi$|dove$|vedi
    |odn|fakt|kto$|kiedy|carece|quem$|quando|onde$|cita\ req|cuándo|quién
    |bron\?|źródł|przypis|niet\ ref|utöver|källa|når|hvem|kilde)
    |.*(?:needed|\binline|\?)$""",
    re.VERBOSE,
)


def name_of(source: str) -> str:
    """Return the name of a template, in lower case, from its source."""
    match = _NAME.match(source)
    return match[1].replace("_", " ").strip().lower() if match else ""


def is_rendered(name: str) -> bool:
    """Return whether the text of templates of this name is known."""
    return _renderer(name) is not None


def is_silent(name: str) -> bool:
    """Return whether a template of this name shows no word of a sentence."""
    return _SILENT.match(name) is not None


def is_remark(before: str, after: str) -> bool:
    """Return whether a template is a remark, by the text around it.

    A remark follows a word or a full stop without a space, and a space or a
    punctuation mark follows it: "in 1990.{{x}} He" and "most{{x}} people" lose
    nothing, "{{x}} people" and "has {{x}} people" may have lost a number.

    Args:
        before: the character before the template.
        after: the two characters after it.
    """
    ends = not after or after[0] in " \n\t,.;:)]<\ue003{" or after[0] in "，。、"
    if before in ("", "\n"):
        # At the start of a line: what follows starts a sentence.
        return after.strip()[:1].isupper()
    if not ends:
        return before in ".!?。！？" and after[0].isupper()
    # In scripts without spaces every template touches a word.
    if before in ".,;:!?\"'”’»)]。、，！？」』\ue003":
        return not (after[:1] == " " and after[1:].islower() and before in ".!?")
    return before.isalpha() and before < "\u0e00"


# --- Renderers --------------------------------------------------------------
def render(
    name: str, values: list[str], named: dict[str, str]
) -> str | None:
    """Return the text of a template, None if its arguments do not tell it.

    Args:
        name: as name_of gives it.
        values: the positional arguments as text.
        named: the named ones.
    """
    renderer = _renderer(name)
    return renderer(values, named) if renderer else None


def _value(number: int) -> Renderer:
    """Return a renderer for templates that show one of their arguments."""

    def render_value(values: list[str], named: dict[str, str]) -> str | None:
        found = named.get(str(number))
        if found is None and len(values) >= number:
            found = values[number - 1]
        return (found or "").strip() or None

    return render_value


def _last(values: list[str], named: dict[str, str]) -> str | None:
    """Return the last positional argument that is not empty."""
    filled = [value.strip() for value in values if value.strip()]
    return filled[-1] if filled else named.get("text")


def _language(values: list[str], named: dict[str, str]) -> str | None:
    """Return the text of {{lang|de|Text}}."""
    return named.get("2") or named.get("text") or _value(2)(values, named)


def _text(text: str) -> Renderer:
    """Return a renderer for templates that always show the same text."""
    return lambda values, named: text


def _before(prefix: str) -> Renderer:
    """Return a renderer for a fixed text and the first argument."""

    def render_before(values: list[str], named: dict[str, str]) -> str | None:
        value = _value(1)(values, named)
        return prefix + value if value else None

    return render_before


def _around(left: str, right: str) -> Renderer:
    """Return a renderer for the first argument between two texts."""

    def render_around(values: list[str], named: dict[str, str]) -> str | None:
        value = _value(1)(values, named)
        return left + value + right if value else None

    return render_around


def _joined(between: str) -> Renderer:
    """Return a renderer that joins the positional arguments."""

    def render_joined(values: list[str], named: dict[str, str]) -> str | None:
        return between.join(v.strip() for v in values if v.strip()) or None

    return render_joined


def _year(prefix: str) -> Renderer:
    """Return a renderer for {{circa|1200|1210}}."""

    def render_year(values: list[str], named: dict[str, str]) -> str | None:
        years = [value.strip() for value in values if value.strip()]
        return prefix + " " + " – ".join(years[:2]) if years else None

    return render_year


_MONTHS = """January February March April May June July August September
    October November December""".split()


def _as_of(values: list[str], named: dict[str, str]) -> str | None:
    """Return "As of 5 March 2014" for {{as of|2014|3|5}}."""
    if named.get("alt"):
        return named["alt"]
    parts = [value.strip() for value in values if value.strip()]
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


def _grouped(number: str) -> str:
    """Return "12,500" for "12500"; what is no plain number stays."""
    match = re.fullmatch(r"([-−]?)(\d{4,})(\.\d+)?", number.strip())
    if not match:
        return number.strip()
    return f"{match[1].replace('-', '−')}{int(match[2]):,}{match[3] or ''}"


def _fraction(values: list[str], named: dict[str, str]) -> str | None:
    """Return "2 1/4" for {{frac|2|1|4}}, "1/4" for {{frac|4}}."""
    parts = [value.strip() for value in values if value.strip()]
    if not parts or len(parts) > 3:
        return None
    if len(parts) == 1:
        return f"1/{parts[0]}"
    whole = f"{parts[0]} " if len(parts) == 3 else ""
    return f"{whole}{parts[-2]}/{parts[-1]}"


_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def _scientific(values: list[str], named: dict[str, str]) -> str | None:
    """Return "6.24×10¹⁸ kg" for {{val|6.24|e=18|u=kg}}."""
    if len(values) > 2 or not values or "ul" in named or "up" in named:
        return None
    text = _grouped(values[0])
    if len(values) == 2:
        text += "±" + values[1].strip()
    if power := named.get("e", "").strip():
        text += "×10" + power.translate(_RAISED)
    unit = named.get("u", "").strip()
    return f"{text} {unit}" if unit else text


def _power(values: list[str], named: dict[str, str]) -> str | None:
    """Return "×10²⁴" for {{e|24}}."""
    value = _value(1)(values, named)
    return "×10" + value.translate(_RAISED) if value else None


def _ship(name: str) -> Renderer:
    """Return a renderer for {{USS|Hornet|CV-12|6}}: the ship's name."""
    return _before(name.upper() + " ")


def _nihongo(values: list[str], named: dict[str, str]) -> str | None:
    """Return "Tokyo (東京, Tōkyō)" for {{nihongo|Tokyo|東京|Tōkyō}}."""
    parts = [value.strip() for value in values[:3]] + ["", "", ""]
    inside = ", ".join(part for part in parts[1:3] if part)
    if not parts[0]:
        return inside or None
    return f"{parts[0]} ({inside})" if inside else parts[0]


def _link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of a link to another wiki, as {{ill|Name|de}}."""
    for key in ("lt", "label", "نص", "عر", "trad", "text", "redigir", "d"):
        if named.get(key, "").strip() and key != "d":
            return named[key].strip()
    filled = [value.strip() for value in values if value.strip()]
    # The older form has the code first: {{ill|de|Name|label}}.
    if len(filled) > 1 and re.fullmatch(r"[a-z]{2,3}", filled[0]):
        return filled[2] if len(filled) > 2 else filled[1]
    return re.sub(r" \([^()]*\)$", "", filled[0]) if filled else None


def _translated_link(values: list[str], named: dict[str, str]) -> str | None:
    """Return the label of {{tsl|en|Name|label}} and {{нп5|Name|label}}."""
    filled = [value.strip() for value in values]
    if len(filled) > 1 and re.fullmatch(r"[a-z]{2,3}", filled[0]):
        filled = filled[1:]
    return next((v for v in (*filled[1:2], *filled[:1]) if v), None)


def _reading(values: list[str], named: dict[str, str]) -> str | None:
    """Return "漢字（かんじ）" for {{読み仮名|漢字|かんじ}}."""
    if len(values) < 2:
        return None
    return f"{values[0].strip()}（{values[1].strip()}）"


def _century(values: list[str], named: dict[str, str]) -> str | None:
    """Return "XIXe siècle" for {{s|XIX|e}}."""
    parts = [value.strip() for value in values]
    return f"{parts[0]}e siècle" if parts and parts[0] else None


def _nothing(values: list[str], named: dict[str, str]) -> str | None:
    """Return None: the text is not known."""
    return None


# --- Measures ---------------------------------------------------------------
# Unit codes of {{convert}}: singular, plural. Others are shown as they stand.
_UNITS = {
    unit.split(":")[0]: tuple(unit.split(":")[1].replace("_", " ").split("/"))
    for unit in """mi:mile/miles km:kilometre/kilometres m:metre/metres
    ft:foot/feet in:inch/inches yd:yard/yards cm:centimetre/centimetres
    mm:millimetre/millimetres nmi:nautical_mile/nautical_miles
    kg:kilogram/kilograms g:gram/grams lb:pound/pounds oz:ounce/ounces
    t:tonne/tonnes tonne:tonne/tonnes ST:short_ton/short_tons
    LT:long_ton/long_tons st:stone/stone ha:hectare/hectares acre:acre/acres
    acres:acre/acres sqmi:square_mile/square_miles sqft:square_foot/square_feet
    mi2:square_mile/square_miles ft2:square_foot/square_feet
    km2:square_kilometre/square_kilometres sqkm:square_kilometre/square_kilometres
    m2:square_metre/square_metres sqm:square_metre/square_metres
    m3:cubic_metre/cubic_metres km3:cubic_kilometre/cubic_kilometres
    cuft:cubic_foot/cubic_feet cuyd:cubic_yard/cubic_yards
    cumi:cubic_mile/cubic_miles cc:cubic_centimetre/cubic_centimetres
    l:litre/litres L:litre/litres USgal:US_gallon/US_gallons
    impgal:imperial_gallon/imperial_gallons usgal:US_gallon/US_gallons
    mph:mile_per_hour/miles_per_hour km/h:kilometre_per_hour/kilometres_per_hour
    kph:kilometre_per_hour/kilometres_per_hour m/s:metre_per_second/metres_per_second
    kn:knot/knots C:°C/°C F:°F/°F K:K/K °C:°C/°C °F:°F/°F hp:horsepower/horsepower
    kW:kilowatt/kilowatts MW:megawatt/megawatts W:watt/watts
    bhp:brake_horsepower/brake_horsepower psi:pound_per_square_inch/pounds_per_square_inch
    ly:light-year/light-years AU:astronomical_unit/astronomical_units
    pc:parsec/parsecs miles:mile/miles feet:foot/feet meters:meter/meters
    metres:metre/metres kilometres:kilometre/kilometres inch:inch/inches
    /sqmi:per_square_mile/per_square_mile /km2:per_square_kilometre/per_square_kilometre
    PD/sqmi:inhabitants_per_square_mile/inhabitants_per_square_mile
    PD/km2:inhabitants_per_square_kilometre/inhabitants_per_square_kilometre
    oilbbl:barrel/barrels cuft/s:cubic_foot_per_second/cubic_feet_per_second
    m3/s:cubic_metre_per_second/cubic_metres_per_second""".replace(
        "km/h:", "km∕h:"
    ).split()
}
_UNITS["km/h"] = _UNITS.pop("km∕h", ("", ""))
_RANGES = {
    "to": " to ",
    "and": " and ",
    "or": " or ",
    "-": "–",
    "–": "–",
    "to(-)": " to ",
    "x": " by ",
    "by": " by ",
    "×": " by ",
    "xx": " by ",
    "+/-": " ± ",
    "±": " ± ",
    "and(-)": " and ",
}
_NUMBER = re.compile(r"[-−–+]?[\d.,/ ]*\d[\d.,/]*(?:e\d+)?$")


def _convert(values: list[str], named: dict[str, str]) -> str | None:
    """Return the measure as given, "5 to 10 miles" for {{convert|5|to|10|mi}}.

    What the template adds, the measure in other units, is left out.
    """
    parts = [value.strip() for value in values]
    text, position = "", 0
    while position + 1 < len(parts) and _NUMBER.match(parts[position]):
        number = _grouped(parts[position].lstrip("+"))
        link = _RANGES.get(parts[position + 1])
        text += number
        position += 1
        if link:
            text += link
            position += 1
            continue
        code = parts[position]
        following = parts[position + 1 : position + 3]
        text += _unit(code, number, text, named)
        # {{convert|5|ft|10|in|cm}} is 5 feet 10 inches.
        if (
            code in ("ft", "lb", "st", "mi", "yd", "LT", "t")
            and len(following) == 2
            and _NUMBER.match(following[0])
            and following[1] in ("in", "oz", "lb", "ft", "yd", "LT", "cwt")
        ):
            text += " "
            position += 1
            continue
        return text
    return None


def _unit(code: str, number: str, text: str, named: dict[str, str]) -> str:
    """Return the unit behind a number, with the space or hyphen before it."""
    singular, plural = _UNITS.get(code, (code, code))
    if named.get("sp") == "us":
        singular, plural = (
            unit.replace("metre", "meter").replace("litre", "liter")
            for unit in (singular, plural)
        )
    if named.get("adj", "").startswith(("on", "mid")):
        return "-" + singular.replace(" ", "-")
    if named.get("abbr", "") in ("on", "in") or code in ("C", "F"):
        return " " + (singular if code in ("C", "F") else code)
    one = number in ("1", "−1") and text == number
    return " " + (singular if one else plural)


# --- Table ------------------------------------------------------------------
def _table() -> dict[str, Renderer]:
    """Return the renderer of each name."""
    table: dict[str, Renderer] = {}

    def add(names: str, renderer: Renderer) -> None:
        table.update(
            dict.fromkeys((n.replace("_", " ") for n in names.split()), renderer)
        )

    add(
        """nowrap nobr nobreak j small smaller big large larger sc smallcaps
        small_caps abbr abbrlink tooltip visible_anchor vanchor nobold sub mono
        var mvar math strong em bold ital italic_correction noitalic center
        citation_needed_span cn-span flag flagcountry flagu fontcolor_ underline
        u angbr_ angle_bracket keypress kbd key samp tt resize_ s crossreference
        nobelprize comment abréviation nobelpreis refnec référence_nécessaire
        cp932フォント 補助漢字フォント 要出典範囲 jis2004フォント link-en le
        internal_link_helper ルビ ruby ak hs nts unbulleted_ strikethrough
        citation_ text typo not_a_typo as_written bdi rtl-lang2 hlist_ dfn term
        إنج فرن ألم روس لات يون إيط إسب فار تر عبر ترك nastaliq script_ unicode
        linktext_ wikt-lang_ lw iw cslist_ short_ ipa_link_ tlit
        page_ lien_ пнл нобр unité_ noitalics pre2 script vr uni hebrew he lang1
        polytonic grc_ currency_ nowraplinks anchor_ color_ enclose""",
        _value(1),
    )
    add(
        """lang langue lang2 rtl-lang langx script/arabic wikt-lang langwithname
        lang-short color colour font_color fontcolor resize fontsize langi
        لغ lingua lang-x2 font bg""",
        _language,
    )
    add("transl transliteration translit xlit", _last)
    add("linktext chem chem2", _joined(""))
    add("date jour nombre unité nb heure", _joined(" "))
    add("convert cvt convertir conv unit_convert", _convert)
    add("frac sfrac fraction", _fraction)
    add("val", _scientific)
    add("e", _power)
    add("as_of asof", _as_of)
    add("circa c. ca. ca", _year("c."))
    add("floruit fl. fl", _year("fl."))
    add("reign r.", _year("r."))
    add("nihongo nihongo3_ nihongo_core", _nihongo)
    add("ill interlanguage_link interlanguage_link_multi illm red", _link)
    add("仮リンク wd_ وإو lien link-interwiki ill2 liên_kết_ngôn_ngữ", _link)
    add(
        """tsl translink нп5 нп3 нп нп2 нп4 не_переведено не_переведено_2 нп1
        не_переведено_3 не_переведено_5 ll 內部連結""",
        _translated_link,
    )
    add("読み仮名 読み仮名_ruby不使用 読み", _reading)
    add("s siècle_", _century)
    add("siècle sp-", _century)
    add("sup", lambda v, n: (_value(1)(v, n) or "").translate(_RAISED) or None)
    add('"', _around("„", "“"))
    add("citation_fr", _around("« ", " »"))
    add("angbr angle", _around("⟨", "⟩"))
    add("' 's_ '- apostrophe", _text("'"))
    add("'s", _text("'s"))
    add("'_\" -'_\"", _text("'\""))
    add("\"_' -\"_'", _text("\"'"))
    add("-\" \"-", _text('"'))
    add("-' '-", _text("'"))
    add("nbsp space spaces thinsp thin_space hair_space hairsp nnbsp nnbsp 0 sp", _text(" "))
    add("snd snds spnd sndash spaced_ndash spaced_en_dash dash", _text(" – "))
    add("– ndash en_dash", _text("–"))
    add("mdash mdashb em_dash —- ---", _text("—"))
    add("тире — spaced_mdash spaced_em_dash snds2", _text(" — "))
    add("· dot middot • bull bullet", _text(" · "))
    add("=", _text("="))
    add("pipe !", _text(" "))
    add("ellipsis ...", _text("…"))
    add("minus", _text("−"))
    add("times x_", _text("×"))
    add("eqm", _text("⇌"))
    add("us$ usd", _before("US$"))
    add("a$ aud", _before("A$"))
    add("gbp £ pound", _before("£"))
    add("euro €", _before("€"))
    add("inr ₹ indian_rupee rs", _before("₹"))
    add("n° numéro", _before("n° "))
    for ship in """uss hms ss mv rms sms hmas hmcs hmnzs usns usat gts ms mts
            ins uscgc ijn hmt rrs rfa ov""".split():
        table[ship] = _ship(ship)
    table["ship"] = _joined(" ")
    table["ship"] = lambda v, n: _joined(" ")(v[:2], n)
    table["music"] = lambda v, n: _MUSIC.get((v or [""])[0].strip().lower())
    table["1er"] = _text("1er")
    table["av jc"] = table["av j.-c."] = _text("av. J.-C.")
    table["xixe siècle"] = _text("XIXe siècle")
    table["xxe siècle"] = _text("XXe siècle")
    table["xviiie siècle"] = _text("XVIIIe siècle")
    return table


_MUSIC = {
    "flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯",
}
_RENDERERS = _table()

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
_LINK_TEMPLATE = re.compile(r"link-[a-z-]+$|internal link helper")
_GERMAN_LANGUAGE = re.compile(r"([a-z]{2,3})s$")


def _renderer(name: str) -> Renderer | None:
    """Return what renders templates of this name, None if nothing does."""
    found = _RENDERERS.get(name)
    if found:
        return found
    if name.startswith("formatnum:"):
        number = name.partition(":")[2]
        return _text(_grouped(number.replace(",", "")))
    if _LANGUAGE_TEMPLATE.match(name) or _LINK_TEMPLATE.match(name):
        return _value(1)
    if match := _GERMAN_LANGUAGE.fullmatch(name):
        if match[1] in _GERMAN_LANGUAGES:
            return _before(_GERMAN_LANGUAGES[match[1]] + " ")
    return None
