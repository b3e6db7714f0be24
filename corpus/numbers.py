"""Numbers and measures, as {{formatnum:12345}} and {{convert|5|mi|km}}.

Numbers are written as the Wikipedia of a language does. {{convert}} adds the
measure in other units. That part is left out, since the sentence is whole
without it: "5 miles", not "5 miles (8.0 km)".
"""

import itertools
import re
from collections.abc import Sequence

from corpus import words

_WORDS = words.read("numbers")
_FORMATS = words.by_word((form["wikis"], form) for form in _WORDS["formats"])
_ZEROS = words.by_word((wikis, zero) for zero, wikis in _WORDS["zeros"].items())
_LAKHS = frozenset(_WORDS["lakhs"].split())

# What MediaWiki takes for a number within other text.
_NUMBER = re.compile(r"(-(?=[0-9.]))?([0-9]+|(?=\.[0-9]))(\.[0-9]*)?")
_EXPONENT = re.compile(r"[0-9][eE][-+]?[0-9]")


def formatted(text: str, language: str) -> str | None:
    """Return "12.345,6" for "12345.6" in German, None if it is not known how.

    As in MediaWiki, the numbers within other text are written so, too.
    """
    code = language.lower()
    if code not in _FORMATS:
        code = code.partition("-")[0]
    form = _FORMATS.get(code)
    if form is None or _EXPONENT.search(text):
        return None
    zero = ord(_ZEROS.get(code, "0"))
    digits = {ord("0") + value: zero + value for value in range(10)}
    # Groups are counted from the end. Those above the thousands may be smaller.
    group = re.compile("[0-9]{1,2}" if code in _LAKHS else "[0-9]{1,3}")

    def write(match: re.Match[str]) -> str:
        sign, whole, fraction = match[1] or "", match[2], match[3] or ""
        if len(whole) >= 3 + form["least"]:
            from_end = whole[::-1]
            groups = [from_end[:3], *group.findall(from_end[3:])]
            whole = form["separator"].join(groups)[::-1]
        number = whole + fraction.replace(".", form["mark"])
        return sign.replace("-", "−") + number.translate(digits)

    return _NUMBER.sub(write, text)


# --- Measures ----------------------------------------------------------------

_MEASURES = words.read("measures")
# Code -> singular and plural.
_UNITS = words.by_word((codes, unit) for codes, *unit in _MEASURES["units"])
_MULTIPLIED = re.compile(
    r"(e3|e6|e9|e12)(.+)$|([kMGT])((?:oilbbl|cuft|USgal|impgal)(?:/\w+)?)$"
)
# Symbols that stand for themselves: kPa, mg/L, kg/m3.
_SYMBOL = re.compile(
    r"[YZEPTGMkhdcmμµnp]?(?:Hz|V|A|J|N|Pa|K|L|l|bar|eV|Wh|mol|Bq|Sv|Gy|m|g|s|W)"
    r"[23]?(?:/(?:s|h|d|m2|m3|km2|l|L|ha|kg))?$"
)
_POWERS = str.maketrans("23", "²³")
_AMOUNT = re.compile(r"\A[-−–+]?(?:[.,/ ]*\d)+[.,/]*(?:e\d+)?$")


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
    text, pairs = "", [*zip(values[::2], values[1::2], strict=False), ("", "")]
    for (amount, code), (smaller, unit_of_it) in itertools.pairwise(pairs):
        number = formatted(amount.lstrip("+"), language)
        if number is None or not _AMOUNT.match(amount):
            return None
        text += number
        if between := _MEASURES["ranges"].get(code):
            if not (is_english or between.strip() in "–±"):
                return None
            text += between
            continue
        if not is_english:
            is_metric = named.get("abbr") == "on" and _SYMBOL.match(code)
            return f"{text} {code.translate(_POWERS)}" if is_metric else None
        unit = _unit(code, text in ("1", "−1"), named)
        if unit is None:
            return None
        text += unit
        smaller_units = _MEASURES["smaller"].get(code, "").split()
        if unit_of_it not in smaller_units or not _AMOUNT.match(smaller):
            return text
        text += " "
    return None


def _unit(code: str, is_one: bool, named: dict[str, str]) -> str | None:
    """Return a unit with the space or hyphen before it, None if unknown."""
    multiple = ""
    if match := _MULTIPLIED.match(code):
        multiple = _MEASURES["multiples"][match[1] or match[3]] + " "
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
        return f"-{multiple}{singular}".replace(" ", "-")
    if named.get("abbr") in ("on", "in", "~"):
        unit, slash, per = code.partition("/")
        symbols = _MEASURES["symbols"]
        unit = symbols.get(unit, unit) + slash + symbols.get(per, per)
    else:
        unit = singular if is_one and not multiple else plural
    return f" {multiple}{unit}"


def _names(code: str) -> Sequence[str] | None:
    """Return the singular and the plural of a unit, also of "ft/s"."""
    if code in _UNITS:
        return _UNITS[code]
    unit, slash, per = code.partition("/")
    if slash and per in _MEASURES["per"] and (unit in _UNITS or not unit):
        singular, plural = _UNITS.get(unit, ("", ""))
        end = "per " + _MEASURES["per"][per]
        return f"{singular} {end}".strip(), f"{plural} {end}".strip()
    return None
