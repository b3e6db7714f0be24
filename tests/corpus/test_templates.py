"""Which templates show text, and which text; also that of {{convert}}."""

import pytest

from corpus import measures, templates


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
    "name",
    ["citation needed", "sfn", "efn", "cite web", "who", "rp", "#tag:ref",
     "infobox person", "page needed", "relevance inline", "нет аи", "要出典",
     "來源請求", "بحاجة لمصدر", "източник", "reflist", "flagicon"],
)  # fmt: skip
def test_remarks_and_boxes_are_silent(name):
    assert templates.SILENT.match(name)


@pytest.mark.parametrize(
    "name",
    ["population", "convert", "lang", "ship", "whole", "noted", "country",
     "wholesale", "#if: x", "currentyear", "metre"],
)  # fmt: skip
def test_others_are_not_silent(name):
    assert not templates.SILENT.match(name)


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
    assert templates.is_remark(before, after) is remark


@pytest.mark.parametrize(
    ("name", "values", "named", "text"),
    [
        ("transl", ["ar", "DIN", "al-jabr"], {}, "al-jabr"),
        ("lang", [], {"1": "fr", "2": "texte"}, "texte"),
        ("abbr", ["UK", "United Kingdom"], {}, "UK"),
        ("e", ["24"], {}, "×10²⁴"),
        ("val", ["5", "2"], {}, "5±2"),
        ("as of", ["2014", "3", "5"], {"df": "US"}, "As of March 5, 2014"),
        ("frac", ["4"], {}, "1/4"),
        ("ill", ["de", "Name", "Label"], {}, "Label"),
        ("tsl", ["en", "Name", "名"], {}, "名"),
        ("読み仮名", ["漢字", "かんじ"], {}, "漢字（かんじ）"),
        ("ens", ["Text"], {}, "englisch Text"),
        ("ألمانية", ["Spree"], {}, "(بالألمانية: Spree)"),
        ("siècle", ["XIX"], {}, "XIXe siècle"),
        ("ship", ["USS", "Hornet", "CV-12"], {}, "USS Hornet"),
        ("höhe", ["28.1", "DE-NHN"], {}, "28,1 m"),
        ("nowrap", [""], {}, None),
        ("frac", [], {}, None),
        ("population", ["5"], {}, None),
    ],
)
def test_rendered_text(name, values, named, text):
    assert templates.render(name, values, named, "en") == text


def test_measures_outside_of_english_have_symbols():
    values = ["891.82", "km2", "sqmi"]
    assert templates.render("convert", values, {}, "ja") == "891.82 km²"


@pytest.mark.parametrize(
    ("source", "named", "expected"),
    [
        ("1300|mi|km", {}, "1,300 miles"),
        ("1|mi|km", {}, "1 mile"),
        ("-1|C", {}, "-1 °C"),
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
    assert measures.convert(source.split("|"), named) == expected


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("", {}),
        ("5", {}),
        ("x|km", {}),
        ("5|furlongs per fortnight", {}),
        ("5|ft3", {"disp": "output number only"}),
    ],
)
def test_what_is_not_known_is_not_shown(source, named):
    assert measures.convert(source.split("|"), named) is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("999", "999"),
        ("1000", "1,000"),
        ("-12500.75", "−12,500.75"),
        ("0015", "0015"),
        ("12 500", "12 500"),
    ],
)
def test_thousands_are_grouped(number, expected):
    assert measures.grouped(number) == expected
