"""How the Wikipedia of a language writes a number, as {{formatnum:12345}}."""

import re
from typing import NamedTuple

from corpus import words


class Format(NamedTuple):
    """How a wiki writes numbers.

    Attributes:
        separator: stands between groups of digits.
        mark: stands before the fraction.
        least: digits before the first separator, at least.
        digits: the ten digits.
        has_lakhs: whether groups above the thousands have two digits.
    """

    separator: str
    mark: str
    least: int = 1
    digits: str = "0123456789"
    has_lakhs: bool = False


_WORDS = words.read("numbers")


def _formats() -> dict[str, Format]:
    digits = {
        code: "".join(chr(ord(zero) + value) for value in range(10))
        for zero, codes in _WORDS["zeros"].items()
        for code in codes.split()
    }
    lakhs = _WORDS["lakhs"].split()
    return {
        code: Format(
            form["separator"],
            form["mark"],
            form["least"],
            digits.get(code, Format._field_defaults["digits"]),
            code in lakhs,
        )
        for form in _WORDS["formats"]
        for code in form["wikis"].split()
    }


_FORMATS = _formats()

# What MediaWiki takes for a number within other text.
_NUMBER = re.compile(r"(-(?=[0-9.]))?([0-9]+|(?=\.[0-9]))(\.[0-9]*)?")
_EXPONENT = re.compile(r"[0-9][eE][-+]?[0-9]")


def formatted(text: str, language: str) -> str | None:
    """Return "12.345,6" for "12345.6" in German, None if it is not known how.

    As in MediaWiki, the numbers within other text are written so, too.
    """
    code = language.lower()
    style = _FORMATS.get(code) or _FORMATS.get(code.partition("-")[0])
    if style is None or _EXPONENT.search(text):
        return None
    table = str.maketrans("0123456789", style.digits)

    def write(match: re.Match[str]) -> str:
        sign, whole, fraction = match[1] or "", match[2], match[3] or ""
        if len(whole) >= 3 + style.least:
            head, last = whole[:-3], whole[-3:]
            size = 2 if style.has_lakhs else 3
            first = len(head) % size
            groups = [head[:first]] if first else []
            groups += [
                head[start : start + size]
                for start in range(first, len(head), size)
            ]
            whole = style.separator.join([*groups, last])
        number = whole + fraction.replace(".", style.mark)
        return sign.replace("-", "−") + number.translate(table)

    return _NUMBER.sub(write, text)
