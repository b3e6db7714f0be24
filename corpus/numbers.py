"""How the Wikipedia of a language writes a number, as {{formatnum:12345}}.

The facts are those of MediaWiki's `languages/messages` (separatorTransformTable
and minimumGroupingDigits, digitGroupingPattern, digitTransformTable, with the
languages that each falls back to), and of CLDR for languages that have no table
there. A no-break space is a plain one here, as in the whole corpus.
"""

import re
from typing import NamedTuple


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


# Separator, mark and digits before the first separator, at least; wikis.
_SEPARATORS = [
    (",", ".", 1, """ak am ami ang anp arc ary arz as awa bbc bcl bh bi blk bn
        bo bpy cdo ceb ch cy dag din diq dtp dty dv dz ee en fat ga gan gd gom
        got gu gur guw gv hak haw he hi hif ig ii ik ilo iu ja jam jbo kcg kg kn
        ko kw lfn mai ml mn mni mnw mr ms mt my nan ne new nso nv ny or pa pcm
        pi pih pnb pwn sa sat sco sd shn si simple skr st sw syl szy ta tay tcy
        te th ti tl tly tn tpi trv tum tw ug ur vo war wuu yi yo yue za zh
        zh-yue"""),
    (".", ",", 1, """
        abs ace als az ban bar bjn bs btm bug ca crh cu da de dsb el
        eu fo frr fy gag gl gor gsw hr hsb id is jv kl lb li lo mad map-bms min
        mk mo nds nds-nl nia nl pdc pdt pfl pnt rmy rn ro roa-rup rsk rw sc sh
        sl sq sr srn stq su tr vi vls zea"""),
    (" ", ",", 1, """ady af atj bat-smg be bm br co cs eml eo ff fi fon fr frp
        fur gcr ht hu ia ie io it ka kab kbd kbp ky lij lld lmo ln lt ltg lv mg
        mwl nap nb nn no nrm oc olo pcd pms pt rm roa-tara scn se sg shi sk smn
        sv tet tg tk ty uz vec wa wo xmf zgh"""),
    (" ", ",", 2, """
        ab alt an ast av avk ay ba be-tarask be-x-old bg bxr cbk-zam
        ce csb cv es et ext fiu-vro gn guc hy hyw inh kaa kk koi krc ksh kv lad
        lbe lez mdf mhr mrj myv nah os pl qu ru rue sah szl tt tyv udm uk vep
        vro xal"""),
    ("٬", "٫", 1, "ar azb ckb fa glk lrc mzn ps"),
    (".", ",", 2, "ku"),
    (",", ",", 1, "km"),
    (" ", ".", 1, "la"),
    ("،", ".", 1, "nqo"),
]  # fmt: skip
# Wikis whose digits are others, by their zero. The Arabic and the Hindi
# Wikipedia have turned them off.
_ZEROS = {
    "०": "anp awa bh dty mai mr ne new pi sa", "٠": "ckb skr",
    "০": "as bn bpy", "۰": "azb fa glk lrc mzn pnb ps", "၀": "blk mnw my",
    "༠": "bo dz", "૦": "gu", "០": "km", "೦": "kn tcy", "໐": "lo", "꯰": "mni",
    "߀": "nqo", "୦": "or", "᱐": "sat",
}  # fmt: skip
_LAKHS = frozenset(
    "anp as awa bn bpy gu hi kn mai ml mr or pa sa ta tcy te".split()
)


def _formats() -> dict[str, Format]:
    digits = {
        code: "".join(chr(ord(zero) + value) for value in range(10))
        for zero, codes in _ZEROS.items()
        for code in codes.split()
    }
    return {
        code: Format(
            separator,
            mark,
            least,
            digits.get(code, Format._field_defaults["digits"]),
            code in _LAKHS,
        )
        for separator, mark, least, codes in _SEPARATORS
        for code in codes.split()
    }


_FORMATS = _formats()

# What MediaWiki takes for a number within other text.
_NUMBER = re.compile(r"(-(?=[0-9.]))?([0-9]+|(?=\.[0-9]))(\.[0-9]*)?")
_EXPONENT = re.compile(r"[0-9][eE][-+]?[0-9]")


def formatted(text: str, language: str, separates: bool = True) -> str | None:
    """Return "12.345,6" for "12345.6" in German, None if it is not known how.

    As in MediaWiki, the numbers within other text are written so, too. Without
    `separates` the digits are in one group.
    """
    code = language.lower()
    style = _FORMATS.get(code) or _FORMATS.get(code.partition("-")[0])
    if style is None or _EXPONENT.search(text):
        return None
    table = str.maketrans("0123456789", style.digits)

    def write(match: re.Match[str]) -> str:
        sign, whole, fraction = match[1] or "", match[2], match[3] or ""
        if separates and len(whole) >= 3 + style.least:
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
