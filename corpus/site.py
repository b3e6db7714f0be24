"""What depends on a wiki's language: names of namespaces, redirects, codes.

A dump names its namespaces in its siteinfo: the prefix of a file is "Datei:"
in the German one. The English names are valid in every wiki. Dumps exist
without siteinfo, or with that of another wiki, so that the names of the larger
wikis are recognised everywhere: no wiki uses another language's word for files
as a prefix of something else.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# Namespaces of which a link shows no text: media, files, categories.
_HIDDEN_NUMBERS = (-2, 6, 14)

_HIDDEN_NAMES = frozenset(
    name.replace("_", " ")
    for name in """
        media medien média медия медиа медіа медија 媒体 媒體 メディア
        وسائط ملف_وسائط مدیا 미디어 मीडिया multimedia medya μέσο מדיה
        medium phương_tiện สื่อ

        file image datei bild fichier archivo imagen ficheiro
        arquivo imagem immagine bestand afbeelding plik grafika файл
        изображение картинка зображення файл_изображение картинка ملف صورة
        پرونده تصویر ファイル 画像 文件 檔案 档案 图像 圖像 文件_图像 图片 圖片
        파일 그림 fil tiedosto kuva soubor fájl kép dosya resim קובץ תמונה
        चित्र फ़ाइल fitxer imatge fișier fişier imagine súbor obrázok
        slika datoteka датотека слика wêrlê tập_tin hình berkas gambar
        ไฟล์ ภาพ αρχείο εικόνα fitxategi irudi dosiero vaizdas attēls pilt
        mynd íomhá delwedd şəkil պատկեր სურათი ფაილი сурет файл выява
        চিত্র படிமம் దస్త్రం ചിത്രം પિલા ਤਸਵੀਰ चित्रम् fájl lêer wikifile
        restr skrá tasvir файли сурот sary imazh skeda figura
        larawan talaksan picha faili imaxe ficheru imáxen imachen

        category kategorie catégorie categoría categoria categorie
        kategoria категория категорія категорија تصنيف رده カテゴリ 分类 分類
        분류 kategori luokka kategória kategori קטגוריה श्रेणी kategória
        kategorija категорія thể_loại หมวดหมู่ κατηγορία kategorio
        categorie kategorija kateqoriya կատեգորիա კატეგორია санат катэгорыя
        বিষয়শ্রেণী பகுப்பு వర్గం വർഗ്ഗം kategoori flokkur catagóir categori
        kategorî turkum гурӯҳ sokajy""".split()
)

# The codes of other Wikipedias, which stand as prefix of interlanguage links.
LANGUAGE_CODES = frozenset(
    """aa ab abs ace ady af ak als alt am ami an ang anp ar arc ary arz as ast
    atj av avk awa ay az azb ba ban bar bat-smg bbc bcl bdr be be-tarask
    be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo
    ce ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq
    dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff fi fiu-vro fj fo
    fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu
    guc gur guw gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia iba id ie
    ig igl ii ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kcg kg
    kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb
    lbe lez lfn lg li lij lld lmo ln lo lrc lt ltg lv lzh mad mai map-bms mdf
    mg mh mhr mi min mk ml mn mni mnw mo mr mrj ms mt mus mwl my myv mzn na nah
    nan nap nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv ny oc
    olo om or os pa pag pam pap pcd pcm pdc pdt pfl pi pih pl pms pnb pnt ps pt
    pwn qu rm rmy rn ro roa-rup roa-tara rsk ru rue rw sa sah sat sc scn sco sd
    se sg sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv
    sw syl szl szy ta tay tcy tdd te tet tg th ti tig tk tl tly tn to tpi tr
    trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo vro wa war wo
    wuu xal xh xmf yi yo yue za zea zgh zh zh-classical zh-cn zh-min-nan zh-tw
    zh-yue zu""".split()
)

# Words after "#" that make a page a redirect.
_REDIRECTS = """redirect redirection redirección redireccion redirecionamento
    rinvia rinvio weiterleitung doorverwijzing przekieruj patrz tam
    перенаправление перенапр перенаправлення пренасочване виж преусмери
    преусмјери пренасочување перанакіраванне айдау бағыттау تحويل تغيير_مسار
    تغییر_مسیر تغییرمسیر 転送 リダイレクト 重定向 넘겨주기 omdirigering
    omdirigera omdirigering viderestilling ohjaus uudelleenohjaus přesměruj
    átirányítás yönlendirme yönlendir הפניה अनुप्रेषित पुनर्प्रेषित redirecció
    redirecţioneaza redirecteaza presmeruj preusmjeri preusmeritev đổi
    alih เปลี่ยนทาง ανακατευθυνση birzuzendu alidirektu alidirekti
    peradresavimas suunа tilvísun athsheoladh ail-cyfeirio ҡаршы
    გადამისამართება վերահղում পুনর্নির্দেশ வழிமாற்று దారిమార్పు
    തിരിച്ചുവിടുക ਰੀਡਿਰੈਕਟ aýdaw ялаулан""".split()

# Templates that make a page a disambiguation page, in lower case.
_DISAMBIGUATIONS = """dab disamb disambig disambiguation hndis geodis mathdab
    mathdis numberdis schooldis roaddis hospitaldis callsigndis begriffsklärung
    homonymie homonymes desambiguación desambiguacion desambiguação desambig
    disambigua doorverwijspagina ujednoznacznienie disambigr неоднозначность
    многозначность список_однофамильцев неоднозначність багатозначність
    förgrening förgreningssida grensida betydelselista peker pekerside
    fleirtyding flertydig täsmennyssivu täsmennys rozcestník egyért
    egyértelműsítő_lap egyért-redir anlam_ayrımı anlam_ayrım פירושונים
    ابهام‌زدایی ابهام_زدایی توضيح صفحة_توضيح 동음이의 동명이인 disambiguasi
    định_hướng trang_định_hướng แก้กำกวม बहुविकल्पी बहुविकल्पी_शब्द пояснение
    пояснителна_страница αποσαφήνιση dezambiguizare desambiguació argipen
    apartigilo вишезначна_одредница razdvojba višeznačna_odrednica
    rozlišovacia_stránka nuorodinis_straipsnis nozīmju_atdalīšana
    täpsustuslehekülg razločitev aimai 曖昧さ回避 人名の曖昧さ回避
    地名の曖昧さ回避
    消歧义 消歧義 消歧義頁 消歧义页 人名消歧义 人名消歧義 地名消歧义 地名消歧義
    мъгляво күп_мәгънәләр неадназначнасць айрық""".split()

# Names that mean something else in other wikis.
_DISAMBIGUATIONS_OF = {"nl": "dp", "sv": "gren", "pl": "ujed", "de": "bkl"}

# What a title ends with, in parentheses, in wikis with a fixed word for it.
_TITLE_WORDS = """disambiguation|begriffsklärung|homonymie|desambiguación|
    desambiguação|disambigua|doorverwijspagina|ujednoznacznienie|значения|
    значення|пояснение|olika betydelser|andre betydninger|flertydig|
    täsmennyssivu|rozcestník|egyértelműsítő lap|anlam ayrımı|פירושונים|
    ابهام‌زدایی|توضيح|동음이의|disambiguasi|định hướng|แก้ความกำกวม|
    αποσαφήνιση|dezambiguizare|desambiguació|曖昧さ回避|消歧义|消歧義"""

# Headings of sections that hold citations and links, no text.
REFERENCE_SECTIONS = frozenset(
    heading.strip().replace("_", " ")
    for heading in """references notes footnotes citations bibliography sources
    further_reading external_links external_link see_also notes_and_references
    references_and_notes works_cited cited_sources general_references
    literature_cited primary_sources secondary_sources explanatory_notes

    einzelnachweise weblinks literatur siehe_auch quellen anmerkungen fußnoten
    belege

    références notes_et_références liens_externes bibliographie voir_aussi
    annexes referencias enlaces_externos bibliografía véase_también notas
    referências ligações_externas bibliografia ver_também note voci_correlate
    collegamenti_esterni przypisy linki_zewnętrzne zobacz_też

    примечания ссылки литература см._также източници външни_препратки
    вижте_също бележки литература_и_източници примітки посилання джерела
    література див._також

    脚注 注釈 出典 参考文献 外部リンク 関連項目 注 註 参考资料 參考資料 参考來源
    參考文獻 外部链接 外部連結 外部鏈接 参见 參見 注释 註釋 延伸阅读 延伸閱讀
    相关条目 相關條目 각주 외부_링크 같이_보기 참고_문헌

    مراجع المراجع مصادر المصادر وصلات_خارجية انظر_أيضا انظر_أيضًا اقرأ_أيضا
    هوامش ملاحظات روابط_خارجية सन्दर्भ संदर्भ बाहरी_कड़ियाँ इन्हें_भी_देखें""".split()
)


def _alternatives(words: Iterable[str], space: str) -> str:
    """Return a pattern for any of some words, with "_" for a space."""
    return "|".join(re.escape(word).replace("_", space) for word in words)


_REDIRECT = re.compile(
    rf"\A\s*#\s*(?:{_alternatives(_REDIRECTS, '[ _]?')})\s*:?\s*\[\[",
    re.IGNORECASE,
)
# {{Human name disambiguation}}, but not {{disambiguation needed}}.
_DISAMBIGUATION = re.compile(
    rf"\{{\{{\s*(?:{_alternatives(_DISAMBIGUATIONS, '[ _]')}"
    r"|(?![^|{}\n]{0,40}(?:need|link|inline|fix))[^|{}\n]{0,40}disambig"
    r"[^|{}\n]{0,40})\s*[|}\n]|__DISAMBIG__",
    re.IGNORECASE,
)
_TITLE = re.compile(
    r"[(（](?:{})[)）]$".format(re.sub(r"\n\s*", "", _TITLE_WORDS)),
    re.IGNORECASE,
)


class Site(NamedTuple):
    """The language of a wiki, and which of its links show no text.

    `hidden` are the names of namespaces, in lower case with spaces for
    underscores: the dump's own, the English ones and those of larger wikis.
    """

    language: str
    hidden: frozenset[str]

    def is_hidden(self, target: str) -> bool:
        """Return whether a link to this target shows no text of the article.

        That is a file, a category or another language; with a leading colon, as
        in [[:de:Berlin]], all of them are plain links.
        """
        prefix, colon, _ = target.partition(":")
        prefix = prefix.replace("_", " ").strip().lower()
        return bool(colon) and (
            prefix in LANGUAGE_CODES or prefix in self.hidden
        )


def from_namespaces(language: str, names: Mapping[int, str]) -> Site:
    """Return the site of a dump, whose siteinfo names these namespaces."""
    own = {
        name.replace("_", " ").strip().lower(): key
        for key, name in names.items()
        if name
    }
    hidden = {name for name, key in own.items() if key in _HIDDEN_NUMBERS}
    return Site(language, _HIDDEN_NAMES.difference(own) | hidden)


def is_redirect(wikitext: str) -> bool:
    """Return whether a page is a redirect, by its text.

    Dumps before schema 0.10 do not mark such pages.
    """
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str, title: str, site: Site) -> bool:
    """Return whether a page lists the meanings of a title, by its templates.

    Those of all larger wikis are known. A title that ends in "(disambiguation)"
    is enough.
    """
    if _TITLE.search(title) or _DISAMBIGUATION.search(wikitext):
        return True
    own = _DISAMBIGUATIONS_OF.get(site.language)
    return bool(
        own and re.search(rf"\{{\{{{own}\s*[|}}]", wikitext, re.IGNORECASE)
    )
