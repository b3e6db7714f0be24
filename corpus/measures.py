"""The text of {{convert|5|mi|km}}: the measure as the author gives it.

The template adds the measure in other units. That part is left out, since the
sentence is whole without it: "5 miles", not "5 miles (8.0 km)".
"""

import re

from corpus import numbers

# Code: singular, plural.
_UNITS = {
    code: (singular, plural)
    for codes, singular, plural in [
        ("mi miles mile", "mile", "miles"),
        ("km kilometres kilometre", "kilometre", "kilometres"),
        ("m metres metre", "metre", "metres"),
        ("meters meter", "meter", "meters"),
        ("ft feet foot", "foot", "feet"),
        ("in inch inches", "inch", "inches"),
        ("yd yards", "yard", "yards"),
        ("cm", "centimetre", "centimetres"),
        ("mm", "millimetre", "millimetres"),
        ("nmi", "nautical mile", "nautical miles"),
        ("kg", "kilogram", "kilograms"),
        ("g", "gram", "grams"),
        ("lb lbs", "pound", "pounds"),
        ("oz", "ounce", "ounces"),
        ("t tonne tonnes", "tonne", "tonnes"),
        ("ST", "short ton", "short tons"),
        ("LT", "long ton", "long tons"),
        ("st", "stone", "stone"),
        ("carat", "carat", "carats"),
        ("ha", "hectare", "hectares"),
        ("acre acres", "acre", "acres"),
        ("sqmi mi2", "square mile", "square miles"),
        ("sqft ft2", "square foot", "square feet"),
        ("km2 sqkm", "square kilometre", "square kilometres"),
        ("m2 sqm", "square metre", "square metres"),
        ("m3", "cubic metre", "cubic metres"),
        ("km3", "cubic kilometre", "cubic kilometres"),
        ("cuft ft3", "cubic foot", "cubic feet"),
        ("cuyd", "cubic yard", "cubic yards"),
        ("cumi", "cubic mile", "cubic miles"),
        ("cc cm3", "cubic centimetre", "cubic centimetres"),
        ("l L", "litre", "litres"),
        ("USgal usgal", "US gallon", "US gallons"),
        ("impgal", "imperial gallon", "imperial gallons"),
        ("oilbbl", "barrel", "barrels"),
        ("mph", "mile per hour", "miles per hour"),
        ("kph", "kilometre per hour", "kilometres per hour"),
        ("kn", "knot", "knots"),
        ("C °C", "°C", "°C"),
        ("F °F", "°F", "°F"),
        ("C-change", "°C", "°C"),
        ("F-change", "°F", "°F"),
        ("hp", "horsepower", "horsepower"),
        ("kW", "kilowatt", "kilowatts"),
        ("MW", "megawatt", "megawatts"),
        ("W", "watt", "watts"),
        ("psi", "pound per square inch", "pounds per square inch"),
        ("ly", "light-year", "light-years"),
        ("AU", "astronomical unit", "astronomical units"),
        ("pc", "parsec", "parsecs"),
        ("PD", "inhabitant", "inhabitants"),
    ]
    for code in codes.split()
}
_PER = {
    "s": "second", "min": "minute", "h": "hour", "d": "day", "a": "year",
    "yr": "year", "year": "year", "km2": "square kilometre",
    "sqkm": "square kilometre", "sqmi": "square mile", "ha": "hectare",
    "acre": "acre", "m2": "square metre", "m3": "cubic metre",
}  # fmt: skip
_SYMBOLS = {
    "sqmi": "sq mi", "mi2": "sq mi", "sqft": "sq ft", "ft2": "sq ft",
    "km2": "km²", "sqkm": "km²", "m2": "m²", "sqm": "m²", "m3": "m³",
    "km3": "km³", "cm3": "cm³", "cuft": "cu ft", "ft3": "cu ft",
    "cumi": "cu mi", "cuyd": "cu yd", "USgal": "US gal", "usgal": "US gal",
    "impgal": "imp gal", "kph": "km/h", "tonne": "t", "tonnes": "t",
    "acres": "acre", "miles": "mi", "feet": "ft", "foot": "ft", "inch": "in",
    "meters": "m", "metres": "m", "kilometres": "km", "oilbbl": "bbl",
    "ST": "short tons", "LT": "long tons", "lbs": "lb", "carat": "carats",
    "C": "°C", "F": "°F", "C-change": "°C", "F-change": "°F",
}  # fmt: skip
_MULTIPLES = {
    "e3": "thousand", "e6": "million", "e9": "billion", "e12": "trillion",
    "k": "thousand", "M": "million", "G": "billion", "T": "trillion",
}  # fmt: skip
_MULTIPLIED = re.compile(
    r"(e3|e6|e9|e12)(.+)$|([kMGT])((?:oilbbl|cuft|USgal|impgal)(?:/\w+)?)$"
)
# Symbols that stand for themselves: kPa, mg/L, kg/m3.
_SYMBOL = re.compile(
    r"[YZEPTGMkhdcmμµnp]?(?:Hz|V|A|J|N|Pa|K|L|l|bar|eV|Wh|mol|Bq|Sv|Gy|m|g|s|W)"
    r"[23]?(?:/(?:s|h|d|m2|m3|km2|l|L|ha|kg))?$"
)
_POWERS = str.maketrans("23", "²³")
_RANGES = {
    "to": " to ", "and": " and ", "or": " or ", "-": "–", "–": "–",
    "to(-)": " to ", "and(-)": " and ", "x": " by ", "by": " by ",
    "×": " by ", "xx": " by ", "+/-": " ± ", "±": " ± ", "to about": " to ",
}  # fmt: skip
_NUMBER = re.compile(r"\A[-−–+]?(?:[.,/ ]*\d)+[.,/]*(?:e\d+)?$")
# {{convert|5|ft|10|in}}: the units that may follow a larger one.
_SMALLER = {
    "ft": ("in",), "yd": ("ft", "in"), "mi": ("yd", "ft"), "lb": ("oz",),
    "st": ("lb",), "LT": ("cwt",),
}  # fmt: skip


def convert(
    values: list[str], named: dict[str, str], language: str
) -> str | None:
    """Return "5 to 10 miles" for {{convert|5|to|10|mi|km}}.

    None if a unit is not known or something else is to be shown. In other
    languages than English, only the symbols of metric units are known.
    """
    if named.get("disp", "").startswith(("out", "num", "unit")):
        return None
    # Words before or after the unit, numbers in words, other separators.
    if named.get("adj", "").startswith(("mid", "pre")) or (
        not named.keys().isdisjoint(("spell", "comma"))
    ):
        return None
    is_english = language.partition("-")[0] in ("en", "simple")
    text, position = "", 0
    while position + 1 < len(values) and _NUMBER.match(values[position]):
        number = numbers.formatted(values[position].lstrip("+"), language)
        if number is None:
            return None
        text += number
        between = _RANGES.get(values[position + 1])
        if between and not (is_english or between.strip() in "–±"):
            return None
        if between:
            text += between
            position += 2
            continue
        code = values[position + 1]
        if not is_english:
            is_metric = named.get("abbr") == "on" and _SYMBOL.match(code)
            return f"{text} {code.translate(_POWERS)}" if is_metric else None
        unit = _unit(code, text in ("1", "−1"), named)
        if unit is None:
            return None
        text += unit
        following = values[position + 2 : position + 4]
        if (
            len(following) < 2
            or following[1] not in _SMALLER.get(code, ())
            or not _NUMBER.match(following[0])
        ):
            return text
        text += " "
        position += 2
    return None


def _unit(code: str, is_one: bool, named: dict[str, str]) -> str | None:
    """Return a unit with the space or hyphen before it, None if unknown."""
    is_symbol = named.get("abbr", "") in ("on", "in", "~")
    multiple = ""
    if match := _MULTIPLIED.match(code):
        multiple = _MULTIPLES[match[1] or match[3]]
        code = match[2] or match[4]
    names = _names(code)
    if names is None:
        return f" {code}" if _SYMBOL.match(code) and not multiple else None
    singular, plural = names
    if named.get("sp") == "us":
        singular, plural = (
            unit.replace("metre", "meter").replace("litre", "liter")
            for unit in names
        )
    if named.get("adj") == "on":
        return "-" + " ".join(filter(None, (multiple, singular))).replace(
            " ", "-"
        )
    if is_symbol:
        unit, slash, per = code.partition("/")
        unit = _SYMBOLS.get(unit, unit) + slash + _SYMBOLS.get(per, per)
    else:
        unit = singular if is_one and not multiple else plural
    return f" {multiple} {unit}" if multiple else f" {unit}"


def _names(code: str) -> tuple[str, str] | None:
    """Return the singular and the plural of a unit, also of "ft/s"."""
    if code in _UNITS:
        return _UNITS[code]
    unit, slash, per = code.partition("/")
    if slash and per in _PER and (unit in _UNITS or not unit):
        singular, plural = _UNITS.get(unit, ("", ""))
        end = f"per {_PER[per]}"
        return f"{singular} {end}".strip(), f"{plural} {end}".strip()
    return None
