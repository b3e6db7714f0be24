"""Split paragraphs into sentences by sentencex, with a few repairs."""

import functools
import re

import sentencex

from corpus.items import Unusable
from corpus.site import LANGUAGE_CODES

# sentencex compares every full stop with every pair of quotation marks of a
# paragraph. Pieces of this many characters keep the time linear.
_PIECE = 10_000


# sentencex fails on a capital letter, another white space than " " and a full
# stop, such as a no-break space. White space becomes " " in a corpus anyway.
_WHITE_SPACE = re.compile(r"\s")


def known_language(language: str) -> bool:
    """Return whether a code names a language, "en" or "zh-hant".

    sentencex has rules for about 30 and uses a related language's for 200 more.
    All others get the English ones, which know the full stops of all scripts.
    """
    code = language.lower()
    return code in LANGUAGE_CODES or code.split("-")[0] in LANGUAGE_CODES


def split(paragraph: str, language: str) -> list[str]:
    """Return the sentences of a paragraph, stripped, without empty ones.

    Raises:
        Unusable: sentencex fails on this text.
    """
    found: list[str] = []
    for piece in _pieces(_WHITE_SPACE.sub(" ", paragraph)):
        try:
            segments = sentencex.segment(language, piece)
        except BaseException as error:
            # A panic in its Rust code is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise Unusable(
                "refused_text", f"sentencex fails: {error}"
            ) from error
        is_glued = False
        for segment in segments:
            for part in _split_again(segment, language):
                sentence = part.strip()
                is_glued = is_glued and not part[:1].isspace()
                if found and _is_one(found[-1], sentence, language, is_glued):
                    found[-1] += f"{'' if is_glued else ' '}{sentence}"
                elif sentence:
                    found.append(sentence)
                is_glued = not part[-1:].isspace()
    return found


def _pieces(paragraph: str) -> list[str]:
    """Return a paragraph in pieces that end with a full stop if possible."""
    pieces = []
    while len(paragraph) > _PIECE:
        cut = max(
            paragraph.rfind(stop, _PIECE // 2, _PIECE) + len(stop)
            for stop in (". ", "。", "। ", "؟ ", "۔ ")
        )
        if cut < _PIECE // 2:
            cut = paragraph.rfind(" ", _PIECE // 2, _PIECE) + 1 or _PIECE
        pieces.append(paragraph[:cut])
        paragraph = paragraph[cut:]
    return [*pieces, paragraph]


# What sentencex takes for one sentence: "(So it was.) Then", "It was. 1990 was
# not", and the same without spaces: 「年。1990年」.
_MISSED_END = re.compile(
    r"[.!?]\) (?=[^\W\d_a-zа-я])|(?<=[^\W\d_]{3}[.!?]) (?=\d{4}\b)"
    r"|[。！？][」』”]?(?=[^。！？」』）”’》〉】)])"
    # It misplaces ends behind Latin letters in Arabic text.
    r"|(?<=[\u0621-\u064a]{3}[.!؟]) (?=[\u0621-\u064a])"
    # Between two apostrophes sentencex expects a quotation: "the cows' milk
    # was sold. Then the farmers' ...".
    r"|(?<= )([a-zß-ÿа-я]{3,20})[.!?] (?=[A-ZÀ-ÞА-Я])"
)
# One of these characters is in each match, not as the last of the sentence.
_STOPS = ".!?؟。！？"
# Words that sentencex takes for abbreviations, but that end sentences.
_MAY_END = {
    language: frozenset(words.split())
    for language, words in {
        "": "etc usw enz osv itd itp atd atď apod stb ecc art",
        "en": "ill may miss fed ore ark arc ken mph wis",
        "es": "mar",
        "it": "mai mar bar col",
        "sv": "maj",
    }.items()
}
_BRACKETS = re.compile(r"[(（「『“〈《【\[]|[)）」』”〉》】\]]")
_OPENING = frozenset("(（「『“〈《【[")


def _split_again(segment: str, language: str) -> list[str]:
    """Return a segment of sentencex, divided where it misses an end."""
    # Most have a full stop at their end only. Finding that takes a tenth of
    # the time of the search below.
    length = len(segment.rstrip())
    inner = segment[: length - 1]
    if not any(map(inner.__contains__, _STOPS)):
        return [segment]
    parts = []
    start = depth = position = 0
    for match in _MISSED_END.finditer(segment, 0, length):
        for bracket in _BRACKETS.findall(segment, position, match.end()):
            depth += 1 if bracket in _OPENING else -1
        position = match.end()
        if (
            depth > 0
            or position == length
            or segment.count('"', start, position) % 2
            or not _is_end(segment, match, language)
        ):
            continue
        parts.append(segment[start:position])
        start = position
        depth = 0
    return [*parts, segment[start:]]


def _is_end(sentence: str, match: re.Match[str], language: str) -> bool:
    """Return whether a match of _MISSED_END does end a sentence."""
    base = language.partition("-")[0]
    if any(match[1] in _MAY_END.get(key, ()) for key in ("", base)):
        return True
    if not match[1] and not sentence[match.end()].isdecimal():
        return True
    # No more than the last word is read: there may be many matches.
    start = max(0, match.end() - 40)
    word = sentence[start : match.end()].rstrip().rpartition(" ")[2]
    return not word.endswith(".") or not (
        _is_abbreviation(word, language, sentence[match.end()].isdecimal())
        or _is_abbreviation_there(word, language)
    )


@functools.lru_cache(maxsize=2**14)
def _is_abbreviation_there(word: str, language: str) -> bool:
    """Return whether sentencex ends no sentence after a word with a stop."""
    return len(sentencex.segment(language, f"Aa {word} Aa")) == 1


# Languages in which a number with a full stop is an ordinal number.
_ORDINALS = frozenset(
    """de nds bar gsw als lb ksh pdc pfl frr stq da no nb nn fi et eu hu cs sk
    sl hr bs sr sh mk pl lv tr hsb dsb fo is""".split()
)
_ORDINAL = re.compile(r"(?:^|[\s(–-])(?:\d{1,3}|[IVXLC]{1,5})\.$")
# Abbreviations that stand before what they belong to, so that no sentence
# ends with them; "" for all languages. One in small letters has a capital
# letter at the beginning of a sentence or title, too.
_BEFORE_NAMES = {
    "": "prof dr проф акад доц инж арх",
    "af": "mnr mev mej ds adv genl kapt St nr bl",
    "ar": "أ.د ق.م",
    "be": "св вул гл стар напр",
    "bg": "т.е ген полк подп кап т.нар напр ок св д-р гр бул вж г-н г-жа",
    "bn": """মি টা ড ডা ডাঃ মো মোঃ মোসা জনাব শ্রী শ্রীমতি শ্রীমতী অধ্যা নং খ্রি
        এ বি সি ডি এফ জে এল এম এন পি টি ভি""",
    "ca": "Sr Sra Srta Dra Mn St Sta Av núm pàg cap vol aprox",
    "cs": """p pí r ing mgr Bc MUDr JUDr PhDr RNDr plk gen kpt por mjr sv č čp
        ul tzv tzn např cca str obr kap odd vyd red""",
    "da": "Sdr kl bd hr frk pastor Skt St ca bl.a f.eks kap inkl ekskl nr jf",
    "de": """z.B z u.a v.a Th Joh Seb Wilh Friedr Heinr Ludw Ferd bzw ca vgl sog
        geb gest Nr Bd Bde Hrsg St Hl hl Mio Mrd Tsd inkl evtl ggf i.d.R d.h S
        Abs Art Aufl Kap Abb lat griech engl franz Hr Hrn Frl Dipl Ing Lic Mag
        Fa Frhr Gebr Pf Präs Abt Jg ahd allg amtl angebl bayer bes bspw byz
        christl dt ehem eigtl einschl entspr erb erw europ evang evtl frz gegr
        gesch hebr hist insb insbes ital jap jüd kath kgl königl luth mhd mind
        mtl nat niederl nördl od österr östl poln preuß röm russ sächs schles
        schweiz span staatl städt stellv südl techn teilw theol tschech türk
        urspr ugs verh vermutl versch verst verw vollst vorm wahrsch westl wiss
        zit zus""",
    "el": "κος κα κ Δρ Καθ Στρ Αγ πρβλ δηλ σελ τόμ π.χ",
    "en": """Wm Chas Geo Thos Benj eds approx ca cf c e.g i.e viz esp fl lit Nos
        vol vols pp op Mt St Ft Lt Col Gen Sgt Capt Cpl Maj Adm Cmdr Rev Hon Sen
        Rep Gov Pres Prof Dr Mr Mrs Ms Mx Messrs vs Pvt Fr Msgr Brig Bvt Supt
        Insp Ven Rt Ste Det Ald Bp Sect Eq Eqs ch Abp Mme Mlle Amb Atty Asst
        Assoc Dist nos circ""",
    "es": """Fco Ma Ntra Ntro Sr Sra Sres Sras Srta Dra D Dª Dña Don Ud Uds Vd
        Vds Gral Cía núm pág págs aprox cf Profa Lic Ing Arq Cnel Cap Tte Cte
        Sgto Alm Excmo Excma Ilmo Ilma Mons Pbro Fr Rvdo Rdo Sto Sta Av Avda Pza
        vol Sma Pte Pdte""",
    "et": "hr pr prl lk nt u",
    "fa": "دکتر ق.م",
    "fi": "tri toht hra rva nti esim ns",
    "fr": """Ch Ph Th n° M MM Mme Mmes Mlle Mlles Mgr Me Mes Pr St Sts Ste av
        apr env cf p.ex ex c.-à-d c-à-d éd rééd vol coll chap fig trad dir gén
        cap capt cdt lt adj bd pp Cie""",
    "gl": "Sr Sra Srta Dra D Da Sto Sta núm páx vol aprox",
    "gu": "ઈ.સ શ્રી શ્રીમતી ડૉ ડો પ્રા પ્રો સ્વ નં",
    "he": 'ד"ר פרופ\' גב\'',
    "hi": """मि ले न स्व रु वि कि.मी श्री श्रीमती सुश्री डॉ डा प्रो पं कु मो सं
        नं पृ ई.पू ए बी सी डी ई एफ एच जे के एल एम एन ओ आर एस टी यू वी
        डब्ल्यू""",
    "hr": "mr gen puk gđa gđica g sv ul br str npr tzv tj mons vlč",
    "hu": "ifj id özv ún kb ill Szt ker",
    "hy": "դոկտ պրոֆ ակադ գեն պրն տկն",
    "id": """hlm Ir H Hj Drs Dra Tn Ny Nn Bpk Sdr Sdri Jend Letjen Mayjen
        Brigjen Kol Letkol Kapt Jl""",
    "is": "próf sr hr bls",
    "it": """on n nn sig sigg sig.ra sig.na sig.ri dott dott.ssa dr.ssa prof.ssa
        ing arch avv geom rag On mons Card Gent Egr Spett Rev Cav Comm Gen Col
        Cap Ten Magg Sen S p pp pag pagg voll vol fig cfr ca a.C""",
    "ka": "პროფ აკად დოც გენ ბ-ნი ქ-ნი ე.წ იხ",
    "kn": "ಕ್ರಿ.ಶ ಕ್ರಿ.ಪೂ ಶ್ರೀ ಶ್ರೀಮತಿ ಡಾ ಪ್ರೊ ಕು",
    "lt": "p gen plk kpt kun vysk šv Nr psl pvz t.y",
    "lv": "k-gs k-dze ģen pulkv kpt sv Nr lpp piem",
    "mk": "д-р ген г-дин г-ѓа св ул бр стр",
    "ml": "ക്രി.വ ശ്രീ ശ്രീമതി ഡോ പ്രൊഫ",
    "mr": """इ.स.पू पु ल मु श्री श्रीमती सौ कु डॉ प्रा पं न्या डा ले कै क्र पृ
        इ.स""",
    "ms": "hlm En Pn Cik Tn Hj Hjh Ir Jen Kol Mej Kapt Jln",
    "ne": "श्री श्रीमती सुश्री डा डॉ प्रा प्रो पं वि.सं नं",
    "nl": """dhr mevr mw mej drs mr ir ing ds jhr jkvr jonkvr past kol lt kap
        kapt St nrs blz ca bijv d.w.z o.a evt incl excl gebr geb overl afb""",
    "no": "kl bd hr frk St ca bl.a f.eks kap inkl ekskl nr jf maks",
    "or": "ଡ ଶ୍ରୀ ଶ୍ରୀମତୀ ଡଃ ଡା",
    "pa": "ਸ੍ਰੀ ਸ੍ਰੀਮਤੀ ਡਾ ਪ੍ਰੋ ਸ੍ਰ",
    "pl": """s t hab mgr inż lek gen płk ppłk kpt por ppor mjr adm ks bp abp św
        bł śp ul al im nr tzn tzw m.in np ok ca ur zm właśc pocz gm godz wyd""",
    "pt": """Cia n p Sr Sra Srs Sras Srta Dra Drs D Profa Profª Eng Engº Arq
        Exmo Exma Ilmo Ilma Gen Cel Cap Ten Maj Sgt Alm Brig Pe Fr Mons Rev Sto
        Sta S St Av núm nº pág págs pp vol aprox cf p.ex séc""",
    "ro": "dl d-l dna d-na dra ing arh gen col lt cpt mr Sf sf str nr pag vol",
    "ru": """рис т.н т.е им ген полк кап лейт адм св напр ок ул просп пл наб пер
        см пр гр д-р ср р г-н г-жа канд тов пос дер изд ред прибл табл""",
    "sl": "mag gen polk g ga gdč sv ul št str npr t.i",
    "sq": "p.sh zt znj zonj gj kol nr",
    "sr": "др ген пук г-дин г-ђа г-ца св ул бр стр нпр тзв тј",
    "sv": "kl ing kapt hr fr fru ca cirka bl.a t.ex S:t inkl exkl nr sid",
    "sk": """p r pán ing mgr Bc MUDr JUDr PhDr RNDr plk gen kpt sv č ul tzv napr
        str""",
    "ta": "மு திரு திருமதி டாக்டர் முனைவர் பேரா செல்வி கி.பி கி.மு",
    "te": "శ్రీ శ్రీమతి డా డాక్టర్ ప్రొ కుమారి క్రీ.శ క్రీ.పూ",
    "tr": """M.Ö M.S İ.Ö İ.S Doç Yrd Av Sn Yzb Alb Gen Org Korg Tümg Tuğg Müh
        Mim Öğr Arş Hz örn bkz""",
    "uk": "рис гл ім ген полк св д-р р вул просп див напр т.зв стор табл мал",
    "ur": "ڈاکٹر پروفیسر",
    "vi": "TS ThS GS PGS BS KS CN Dr TP",
}  # fmt: skip
# Abbreviated names of months (CLDR's, and some more), which stand before a
# year or a day.
_MONTHS = {
    "": """jan feb febr mar mrt apr jun jul aug sep sept oct okt nov dec des dez
        янв фев февр мар апр июн июл авг сен сент сеп окт ноя нояб ное дек""",
    "az": "yan fev iyn iyl avq sen noy dek",
    "bn": "জানু ফেব সেপ্টে অক্টো নভে ডিসে",
    "be": "сту лют сак кра чэр ліп жні вер кас ліс сне",
    "bg": "яну",
    "ca": "gen abr ag set",
    "cs": "led úno bře dub kvě čvn čvc srp zář říj lis pro",
    "de": "mär mrz jän",
    "el": """ιαν φεβ μαρ μάρ απρ μαΐ μάι ιουν ιούν ιουλ ιούλ αυγ αύγ σεπ οκτ νοε
        νοέ δεκ""",
    "es": "ene abr ago set dic",
    "et": "jaan veebr dets",
    "eu": "urt ots api mai eka uzt abu ira urr aza abe",
    "fr": "janv fév févr avr juil déc",
    "fy": "mai",
    "gl": "xan abr xuñ xul ago set out",
    "hi": "जन फर फ़र जुल अग सित अक्टू अक्तू नव दिस",
    "hr": "sij velj ožu tra svi lip srp kol ruj lis stu pro",
    "hu": "márc ápr máj jún júl szept",
    "hy": "հնվ փտվ մրտ ապր մյս հնս հլս օգս սեպ հոկ նոյ դեկ",
    "id": "agu agt",
    "is": "jún júl ágú nóv",
    "it": "gen mag giu lug ago set sett ott dic",
    "ka": "იან თებ მარ აპრ მაი ივნ ივლ აგვ სექ ოქტ ნოე დეკ",
    "lt": "saus vas kov bal geg birž liep rugp rugs spal lapkr gruod",
    "lv": "janv jūn jūl",
    "mk": "јан јун јул",
    "ms": "ogo dis",
    "pl": "sty lut kwi cze lip sie wrz paź lis gru",
    "pt": "fev abr mai ago set out",
    "ro": "ian iun iul",
    "sl": "avg",
    "sq": "shk pri qer korr gush sht tet nën dhj",
    "sr": "јан феб дец",
    "ta": "ஜன பிப் ஆக செப் அக் நவ டிச",
    "tr": "oca şub nis may haz tem ağu eyl eki kas ara",
    "uk": "січ лют бер квіт трав черв лип серп вер жовт лист груд",
}
# Wikis whose language is written as another's.
_WRITTEN_AS = {
    "als": "de", "as": "bn",
    "bar": "de", "bs": "hr", "gsw": "de", "ksh": "de", "lb": "de",
    "nb": "no", "nds": "de", "nn": "no", "sh": "hr", "simple": "en",
    "stq": "de",
}  # fmt: skip


def _is_abbreviation(word: str, language: str, is_before_number: bool) -> bool:
    """Return whether a word with a full stop stands before something else."""
    words, months = _abbreviations(language)
    word = word[:-1].lstrip("(\"'“„[«")
    # L'on. Moro
    return (
        not words.isdisjoint((word, re.split(r"['’](?=\w\w)", word)[-1]))
        or is_before_number
        and word.lower() in months
    )


@functools.cache
def _abbreviations(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the abbreviations and the names of months of a language."""
    base = language.partition("-")[0]
    base = _WRITTEN_AS.get(base, base)
    words, months = (
        table[""].split() + table.get(base, "").split()
        for table in (_BEFORE_NAMES, _MONTHS)
    )
    capitals = [word[0].upper() + word[1:] for word in words if len(word) > 1]
    return frozenset(words + capitals), frozenset(months)


# Initials of names, which no sentence ends with: in scripts of which sentencex
# knows no initials, and J.-J. (but J.-C., Christ).
_INITIALS = re.compile(
    r"(?:\A|[\s(„“«.])[\u0370-\u03ff\u0400-\u042f\u0490\u05d0-\u064a]\.\Z"
    r"|\b[A-ZÀ-ÞΑ-ΩА-Я]\w?\.-(?!C\.)[A-ZÀ-ÞΑ-ΩА-Я]\w?\.\Z"
    r"|\A[A-ZÀ-Ž]\.\Z"
)
# In these languages sentencex ends a sentence behind a single initial. Most
# words behind one are names; the shortest are articles, pronouns or the like.
_CUT_AFTER_INITIALS = frozenset("fr es pt ca gl oc da cs sk pl".split())
_INITIAL = re.compile(r"[\s(][A-ZÀ-Ž]\.\Z")
_NAME = re.compile(r"[^\W\d_]{4}")
# The first letter of an abbreviation without spaces, such as î.Hr.
_LETTER = re.compile(r"(?:\A|[\W_])[^\W\d_]\.\Z")
_CLOSES = re.compile(r"\A[^()]*\)")
# No sentence is longer: joining ever longer ones would take quadratic time.
_LONGEST = 3000
# After a closing quotation mark, a Japanese sentence continues with these.
_JAPANESE_PARTICLES = tuple(
    """と って など は が を に の も で や へ から まで より という として
    だ である です との とは とか ・ 、 ） 」 』""".split()
)


def _is_one(before: str, after: str, language: str, is_glued: bool) -> bool:
    """Return whether two parts, with text each, are one sentence.

    `is_glued` says that there is no space between them.
    """
    if not after or len(before) > _LONGEST:
        return False
    # sentencex takes 3.5 for one number, but not ৩.৫; nor J.-C. for one word.
    is_number = before[-2:-1].isdecimal() and after[0].isdecimal()
    has_hyphen = after[0] == "-" and after[1:2].isalpha()
    if is_glued and (
        is_number or has_hyphen or after[0].isalpha() and _LETTER.search(before)
    ):
        return True
    base = language.split("-")[0]
    # Korean sentences end with a verb, not with the 3. of 1990. 5. 3., and go
    # on behind a quotation.
    if base == "ko" and (
        before[-2:-1].isdecimal()
        or (is_glued and before[-1] in "\"'”’" and after[0].isalpha())
    ):
        return True
    if base in ("ja", "zh"):
        # After a quotation or parenthesis the sentence may go on.
        return (
            after[0] in "」』）”’》〉】，、；：,"
            or (
                base == "ja"
                and before[-1] in "」』）"
                and after.startswith(_JAPANESE_PARTICLES)
            )
            or (
                base == "zh"
                and before[-1] in "”』」）"
                and after[0] in "的等之"
            )
        )
    if before.count("(") > before.count(")") and _CLOSES.match(after):
        return True
    if after[0] == ")" or before[-1] in (",;" if base != "el" else ","):
        return True
    if before[-1] not in ".!?…\"'”’“‘»)":
        return False
    word = after.lstrip("(\"“„«‘' ")
    if (
        word[:1].islower()
        and not "ა" <= word[0] <= "ჿ"  # Georgian has no capital letters
        and not word[1:2].isupper()  # iPhone and eBay start sentences
    ):
        return True
    if base in _ORDINALS and _ORDINAL.search(before[-12:]):
        return True
    if _INITIALS.search(before, max(0, len(before) - 12)) or (
        base in _CUT_AFTER_INITIALS
        and _INITIAL.search(before, max(0, len(before) - 3))
        and _NAME.match(word)
    ):
        return True
    *_, first, last = ["", *before[-40:].split(" ")]
    if len(first) == len(last) == 2 and first[1] == ".":  # т. е.
        last = first + last
    if is_glued and last.endswith("."):  # वि.सं.
        last += after.partition(" ")[0]
    return last.endswith(".") and _is_abbreviation(
        last, language, is_before_number=after[0].isdecimal()
    )
