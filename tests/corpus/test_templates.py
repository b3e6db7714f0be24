"""Which templates show text, and which text; also that of {{convert}}."""

import pytest

from corpus import numbers, templates


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("{{ Citation_needed |date=x}}", "citation needed"),
        ("{{a\n|b}}", "a"),
        ("{{formatnum:5}}", "formatnum:5"),
        ("{{subst:a}}", "a"),
        ("{{}}", ""),
    ],
)
def test_names(source, name):
    assert templates.name_of(source) == name


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("{{citation needed|date=May 2019}}", "en"),
        ("{{Sfn|Ahmes|1905|p=5}}", "fr"),
        ("{{efn|A note.}}", "en"),
        ("{{rp|5}}", "en"),
        ("{{#tag:ref|A note.}}", "en"),
        ("{{page needed}}", "en"),
        ("{{relevance inline|date=May 2019}}", "en"),
        ("{{Quand|date=mai 2019}}", "fr"),
        ("{{qui}}", "fr"),
        ("{{anything|fecha=mayo de 2019}}", "es"),
        ("{{нет АИ|5|6|2019}}", "ru"),
        ("{{Bron?||2019|06|05}}", "nl"),
        ("{{carece de fontes|data=maio de 2019}}", "pt"),
        ("{{הערה|A note.}}", "he"),
        ("{{پک|A|2019}}", "fa"),
        ("{{u|A note.}}", "pl"),
        ("{{출처|날짜=2019-5-1}}", "ko"),
        ("{{要出典|date=2019年5月}}", "ja"),
        ("{{coord|51|30|N|display=title}}", "en"),
    ],
)
def test_notes_and_remarks_are_silent(source, language):
    assert templates.is_silent(templates.name_of(source), source, language)


@pytest.mark.parametrize(
    ("source", "language"),
    [
        # These are words: the names begin like those of remarks.
        ("{{s-|XIX|e}}", "fr"),
        ("{{harvtxt|Ahmes|1905}}", "en"),
        ("{{clarify span|a third}}", "en"),
        ("{{sic|goverm|ent}}", "en"),
        ("{{pagetype}}", "en"),
        ("{{noted}}", "en"),
        ("{{whole}}", "en"),
        # What a remark is about.
        ("{{cn|ebbe molti premi}}", "it"),
        ("{{who|1=some authors}}", "en"),
        ("{{carece de fontes|um terço}}", "pt"),
        ("{{когда|недавно}}", "ru"),
        ("{{хто|деякі}}", "uk"),
        ("{{quand|1999}}", "fr"),
        # Names of places that may show a text.
        ("{{ancla|a|el pueblo}}", "es"),
        # Names of another wiki.
        ("{{qui}}", "en"),
        ("{{кто}}", "de"),
        ("{{#if: x}}", "en"),
        ("{{coord|51|30|N|display=inline,title}}", "en"),
    ],
)
def test_others_are_not_silent(source, language):
    assert not templates.is_silent(templates.name_of(source), source, language)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{x}}", False),
        ("{{x| }}", False),
        ("{{x|a=b|c={{d|e}}}}", False),
        ("{{x|a=[[b|c]]}}", False),
        ("{{x|a={{b}}=c|}}", False),
        ("{{x|5}}", True),
        ("{{x|a=b|5}}", True),
        ("{{x|2=b}}", True),
        ("{{x|[[b|c=d]]}}", True),
        ("{{lc:TEXT}}", True),
        ("{{2}}", True),
    ],
)
def test_positional_arguments_hold_text(source, expected):
    assert any(templates.positional(source)) is expected


@pytest.mark.parametrize(
    ("before", "after", "remark"),
    [
        (".", " H", True),  # in 1990.{{x}} He
        ("t", " p", True),  # most{{x}} people
        ("t", ", ", True),  # most{{x}}, so
        (".", "He", True),  # in 1990.{{x}}He
        ("\n", "He", True),  # {{x}}He
        (" ", " p", False),  # has {{x}} people
        ("", " p", False),  # {{x}} people
        ("5", " k", False),  # 5{{x}} km
        ("t", "ed", False),  # start{{x}}ed
        (".", " p", False),  # in 1990.{{x}} people
        ("は", "人", False),  # 人口は{{x}}人
    ],
)
def test_remarks_by_the_text_around_them(before, after, remark):
    assert templates.is_remark(before, after, with_text=False) is remark


@pytest.mark.parametrize(
    ("before", "after", "remark"),
    [
        (".", " H", True),  # in 1990.{{x|y}} He
        (".", "\n", True),
        ("t", " p", False),  # most{{x|y}} people
        ("t", ", ", False),
        ("\n", " H", False),  # {{x|y}} He
        ("。", "人", False),
        ("。", "", True),
    ],
)
def test_remarks_with_words_stand_between_sentences(before, after, remark):
    assert templates.is_remark(before, after, with_text=True) is remark


@pytest.mark.parametrize(
    ("language", "source", "text"),
    [
        ("en", "transl|ar|DIN|al-jabr", "al-jabr"),
        ("en", "lang|fr|texte", "texte"),
        ("en", "lang-de|Berlin", "German: Berlin"),
        ("en", "langx|la|Opus", "Latin: Opus"),
        ("en", "lang-de|Text|x", None),
        (
            "en",
            "langx|ru|мир|mir|peace",
            "Russian: мир, romanized: mir, lit. 'peace'",
        ),
        ("en", "val|5.2|(3)", None),
        ("en", "val|1.5|0.2|e=6", "(1.5±0.2)×10⁶"),
        ("en", "as of|1990|5|post=,", None),
        ("en", "lang-xx|Berlin", None),
        ("en", "abbr|UK|United Kingdom", "UK"),
        ("en", "e|24", "×10²⁴"),
        ("en", "10^|6", "10⁶"),
        ("en", "val|5|2", "5±2"),
        ("en", "val|12345.5|u=kg", "12,345.5 kg"),
        ("de", "val|12345.5|u=kg", "12.345,5 kg"),
        ("en", "as of|2014|3|5|df=US", "As of March 5, 2014"),
        ("es", "as of|2014|3|5", None),
        ("en", "frac|4", "1/4"),
        ("en", "cvt|5|km|mi", "5 km"),
        ("fr", "s-|i", "Ier siècle"),
        ("en", "ill|de|Name|Label", "Label"),
        ("en", "tsl|en|Name|名", "名"),
        ("ja", "読み仮名|漢字|かんじ", "漢字（かんじ）"),
        ("de", "ens|Text", "englisch Text"),
        ("de", "ens|Text|de=Wort", None),
        ("en", "ens|Text", None),
        ("ar", "ألمانية|Spree", "(بالألمانية: Spree)"),
        ("en", "ship|USS|Hornet|CV-12", "USS Hornet (CV-12)"),
        ("en", "uss|Hornet|CV-12|6", "USS Hornet"),
        ("en", "ship|USS|Hornet|CV-12|2", "Hornet"),
        ("en", "ship|USS|Hornet|CV-12|1", None),
        ("en", "circa|1900|1910", "c. 1900 – c. 1910"),
        (
            "en",
            "nihongo|Tokyo|東京|Tōkyō|capital",
            "Tokyo (東京, Tōkyō, capital)",
        ),
        (
            "en",
            "nihongo|Tokyo|東京|Tōkyō|lead=yes",
            "Tokyo (Japanese: 東京, Hepburn: Tōkyō)",
        ),
        ("en", "val|1234|fmt=none", None),
        ("fr", "lien|fr=Londres|trad=London", "Londres"),
        ("fr", "lien|Londres|trad=London|texte=la ville", "la ville"),
        ("zh", "tsl|en|Name|名|標籤", "標籤"),
        ("zh", "le|名|Name|標籤", "標籤"),
        ("zh", "link-en|名|Name", "名"),
        ("pl", "j|en|Text", None),
        ("de", "höhe|28.1|DE-NHN", "28,1 m"),
        ("en", "harvtxt|Ahmes|Bell|1905|p=5", "Ahmes & Bell (1905, p. 5)"),
        ("en", "harv|A|B|C|D|1905a", "(A et al. 1905a)"),
        ("en", "harvnb|Ahmes|1905", "Ahmes 1905"),
        ("en", "sic|goverm|ent", "goverment"),
        ("en", "nowrap|", None),
        ("en", "frac", None),
        ("en", "population|5", None),
        ("fr", "siècle|XIX", "XIXe siècle"),
        ("fr", "s-|XIX|e", "XIXe siècle"),
        ("fr", "-s-|I|er", "Ier siècle av. J.-C."),
        ("fr", "sp-|XV|e|au|XVI|e", "XVe au XVIe siècle"),
        ("fr", "xixe siècle", "XIXe siècle"),
        ("fr", "2e", "2e"),
        ("fr", "e|siècle", "e siècle"),
        ("fr", "lle", "lle"),
        ("fr", "heure|8", "8 h"),
        ("fr", "heure|8|05|3", "8 h 05 min 3 s"),
        ("fr", "heure|midi", None),
        ("fr", "heure||30", None),
        ("fr", "date|1|janvier|1850", "1er janvier 1850"),
        ("fr", "date|3|12|1850", "3 décembre 1850"),
        ("fr", "date|mars|1850", "mars 1850"),
        ("fr", "date|3|13|1850", None),
        ("fr", "unité|12345,5|km/h", "12 345,5 km/h"),
        ("fr", "nombre|-5000|habitants", "−5 000 habitants"),
        ("fr", "unité|5|à|10|km", None),
        ("fr", "unité|5|10", None),
        ("fr", "unité|10|m|s|-1", None),
        ("fr", "exp|2", "²"),
        ("fr", "refnec|un tiers", "un tiers"),
        ("de", "formatzahl|12345", "12.345"),
        ("fr", "xive|arrondissement", "XIVe arrondissement"),
        ("es", "siglo|XIX||s", "siglo XIX"),
        ("es", "siglo|V|a|s", "siglo V a. C."),
        ("es", "siglo|XIX", None),  # stands behind "siglo"
        ("es", "unidad|12345|km", "12 345 km"),
        ("it", "cn|molti premi|maggio 2019", "molti premi"),
    ],
)
def test_rendered_text(language, source, text):
    name, *arguments = source.split("|")
    values = [value for value in arguments if "=" not in value]
    named = dict(value.split("=") for value in arguments if "=" in value)
    assert templates.Call(name, values, named, language).text() == text


@pytest.mark.parametrize(
    ("language", "source", "text"),
    [
        ("en", "12345", "12,345"),
        ("de", "12345.6", "12.345,6"),
        ("fr", "-2.50", "−2,50"),
        ("it", "1234", "1 234"),
        ("es", "1234", "1234"),
        ("es", "12345", "12 345"),
        ("pl", "1234.5", "1234,5"),
        ("pt-BR", "1234", "1 234"),
        ("hi", "1234567", "12,34,567"),
        ("bn", "1234567.8", "১২,৩৪,৫৬৭.৮"),
        ("fa", "12345.6", "۱۲٬۳۴۵٫۶"),
        ("ar", "12345.6", "12٬345٫6"),
        ("my", "12345", "၁၂,၃၄၅"),
        ("ja", "12345", "12,345"),
        ("en", "0015", "0,015"),
        ("en", "12 500 to 12500", "12 500 to 12,500"),
        ("de", "12,345", "12,345"),  # as MediaWiki: no number
        ("en", "1e6", None),
        ("xx", "5", None),
        ("sn", "5", None),  # no table, neither there nor in CLDR
    ],
)
def test_numbers_are_those_of_the_wiki(language, source, text):
    found = templates.Call(f"formatnum:{source}", [], {}, language).text()
    assert found == text


@pytest.mark.parametrize(
    ("language", "source", "named", "text"),
    [
        ("en-gb", "5|km|mi", {}, "5 kilometres"),
        ("ja", "12891.82|km2|sqmi", {"abbr": "on"}, "12,891.82 km²"),
        ("es", "12891.82|km|mi", {"abbr": "on"}, "12 891,82 km"),
        ("es", "12891.82|km|mi", {}, None),  # "kilómetros"
        ("es", "5|mi|km", {"abbr": "on"}, None),
        ("es", "5|to|10|km", {"abbr": "on"}, None),
    ],
)
def test_measures_in_other_languages_have_metric_symbols(
    language, source, named, text
):
    values = source.split("|")
    assert templates.Call("convert", values, named, language).text() == text


@pytest.mark.parametrize(
    ("source", "named", "expected"),
    [
        ("1300|mi|km", {}, "1,300 miles"),
        ("1|mi|km", {}, "1 mile"),
        ("-1|C", {}, "−1 °C"),
        ("20.5|C|F", {"abbr": "on"}, "20.5 °C"),
        ("5|ft|10|in|cm", {}, "5 feet 10 inches"),
        ("5|to|10|km|mi", {}, "5 to 10 kilometres"),
        ("5|km|mi", {"sp": "us"}, "5 kilometers"),
        ("3|x|5|m", {}, "3 by 5 metres"),
        ("3|–|5|kg|lb", {}, "3–5 kilograms"),
        ("100|m|ft", {"adj": "on"}, "100-metre"),
        ("2|sqmi", {"adj": "on"}, "2-square-mile"),
        ("891.82|sqkm", {"abbr": "on"}, "891.82 km²"),
        ("50|km/h|mph", {}, "50 kilometres per hour"),
        ("36747|ft/s|m/s", {}, "36,747 feet per second"),
        ("36747|ft/s|m/s", {"abbr": "on"}, "36,747 ft/s"),
        ("2.3|Moilbbl/d", {}, "2.3 million barrels per day"),
        ("22|e6acre|km2", {}, "22 million acres"),
        ("12|PD/sqmi", {}, "12 inhabitants per square mile"),
        ("1.2|kg/m3", {}, "1.2 kilograms per cubic metre"),
        ("101|kPa|psi", {}, "101 kPa"),
        ("0.05|kg", {}, "0.05 kilograms"),
        ("12,500|ha", {}, "12,500 hectares"),
    ],
)
def test_measures_are_shown_as_given(source, named, expected):
    assert numbers.convert(source.split("|"), named, "en") == expected


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("", {}),
        ("5", {}),
        ("x|km", {}),
        ("5|furlongs per fortnight", {}),
        ("5|ft3", {"disp": "output number only"}),
        ("5|km|mi|-long", {"adj": "mid"}),
        ("5|km|mi|new", {"adj": "pre"}),
        ("5|km", {"spell": "in"}),
        ("1234|km", {"comma": "off"}),
    ],
)
def test_what_is_not_known_is_not_shown(source, named):
    assert numbers.convert(source.split("|"), named, "en") is None
