"""Pages of Wikipedia to sentences: every construct, several languages."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import site, wikitext

LOCAL_NAMES = {
    "en": {6: "File", 14: "Category"},
    "de": {6: "Datei", 14: "Kategorie"},
    "ja": {6: "ファイル", 14: "Category"},
    "zh": {6: "File", 14: "Category"},
    "ar": {6: "ملف", 14: "تصنيف"},
    "bg": {6: "Файл", 14: "Категория"},
}
# What no sentence may hold: the list of the issue.
LEFTOVER = re.compile(
    r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|\||==|<ref|\d+px|^\s*[*#:;]"
    "|[\ue000-\ue00f]"
)


def convert(text: str, language: str = "en") -> tuple[list[str], dict]:
    """Return what becomes of a page of a wiki in this language."""
    place = site.from_namespaces(language, (*LOCAL_NAMES[language].items(),))
    return wikitext.to_sentences(text, place)


def sentences(text: str, language: str = "en") -> list[str]:
    return convert(text, language)[0]


# --- Constructs -------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Emphasis.
        ("It's ''very'' '''big''' and '''''so''''' on.",
         ["It's very big and so on."]),
        ("The '''dogs''''' tail'' wags.", ["The dogs tail wags."]),
        ("C'est L'''amour'' ici.", ["C'est L'amour ici."]),
        ("Four ''''apostrophes'''' stay.", ["Four 'apostrophes' stay."]),
        # Links.
        ("A [[car]] of [[Rome|the city]].", ["A car of the city."]),
        ("[[Dog]]s of [[Mercury (planet)|]].", ["Dogs of Mercury."]),
        ("See [[:Category:Dogs]] and [[#Life|life]].",
         ["See Category:Dogs and life."]),
        ("A [http://a.b/c?d=e label] of ''it''.", ["A label of it."]),
        ("A [//a.b label with [[a link|link]]].", ["A label with link."]),
        ("It was so.[http://a.b]", ["It was so."]),
        ("It is so.\n\nhttp://a.b/c", ["It is so."]),
        # Files, categories, other languages: also nested.
        ("[[File:A.jpg|thumb|200px|A [[dog]] of [[Rome|R.]]]]It is.",
         ["It is."]),
        ("It is[[image:A.jpg|20px]] so.[[Category:Dogs]][[de:Hund]]",
         ["It is so."]),
        ("[[File:A.jpg|thumb|Caption with {{convert|5|mi}} and\nlines.]]\nIs.",
         ["Is."]),
        # References.
        ("It is.<ref>No.</ref> So.<ref name=a/> Yes<ref name=\"b\">x</ref>.",
         ["It is.", "So.", "Yes."]),
        ("It is.<ref>{{cite|a=[[b]]</ref> So.", ["It is.", "So."]),
        ("It is.<ref>a\n\nb</ref>So it was.", ["It is.", "So it was."]),
        ("It is.<ref>No end.\nSo it was.\n<references>\n</references>",
         ["It is.", "So it was."]),
        ("It is.<ref>No end. Gone.\nThe next line.",
         ["It is.", "The next line."]),
        # Lists, headings, tables.
        ("It is.\n* One.\n# Two.\n: Three.\n; Four.\nSo.", ["It is.", "So."]),
        ("== Head ==\nIt is.\n=== More ===\nSo.", ["It is.", "So."]),
        ("It is.\n{| class=x\n! h\n|-\n| a || b\n|}\nSo.", ["It is.", "So."]),
        ("It is.\n{|\n| a\n{|\n| b\n|}\n| c\n|}\nSo.", ["It is.", "So."]),
        ("It is.\n{{x|\n{|\n| b\n|}}}\nSo.", ["It is.", "So."]),
        ("It is.\n:{|\n| b\n|}\nSo.", ["It is.", "So."]),
        ("A.\n<table><tr><td>b<table><td>c</table></td></tr></table>\nIt is.",
         ["A.", "It is."]),
        ("It is.<ul><li>a</li></ul>\n<ol>\n<li>b\n</ol>\nSo.",
         ["It is.", "So."]),
        ("It is.\n| rest of an unclosed table\n! x\nSo.", ["It is.", "So."]),
        # Templates.
        ("{{Infobox a\n| b = {{c|[[d]]}}\n}}\n'''It''' is.", ["It is."]),
        ("{{a}}{{b}}\nIt is{{citation needed|date=x}} so.{{sfn|x|p=1}}",
         ["It is so."]),
        ("{{Unclosed\n| a = b\nIt is.", ["It is."]),
        # Tags.
        ("H<sub>2</sub>O, 10<sup>6</sup> m<sup>2</sup>, 19<sup>th</sup>.",
         ["H2O, 10⁶ m², 19th."]),
        ("It <span style=\"a\">is</span> <small>so</small>,<br />yes.",
         ["It is so, yes."]),
        ("<div class=x>It is.</div><p>So.", ["It is.", "So."]),
        ("<blockquote>It is.</blockquote> So.", ["It is.", "So."]),
        ("{{quote|It is.}} So.", ["It is.", "So."]),
        ("{|\n|a\n|} So.", ["So."]),
        ("It is.\n<gallery>\nFile:a.jpg|b\n</gallery>\nSo.", ["It is.", "So."]),
        ("It is.\n<syntaxhighlight lang=c>\na = '''[[';\n</syntaxhighlight>",
         ["It is."]),
        ("It is.\n:<math>\\frac{{a}}{{b}}</math>\nSo.", ["It is.", "So."]),
        ("It is.\n<math>x</math>.\nSo.", ["It is.", "So."]),
        ("It is.\n<pre>\na b\n</pre>\n code\n<timeline>x</timeline>",
         ["It is."]),
        ("It<!-- no\n\n --> is.<!-- to the end ==\n* a", ["It is."]),
        ("It is\n<!-- a line -->\nso.", ["It is so."]),
        ("Use <nowiki>''two'' marks</nowiki>.", ["Use ''two'' marks."]),
        ("Use <nowiki>[[a]]</nowiki> here. It is.", ["It is."]),
        ("A <ruby>word<rt>read so</rt></ruby> is.", ["A word is."]),
        ("It is n{{o}} 5.", []),
        # Magic words, entities, invisible characters.
        ("__NOTOC__\n__FORCETOC__It is.", ["It is."]),
        ("A&nbsp;B &amp; C &#8211; D.", ["A B & C – D."]),
        ("It\u00ad is\u200b a\ufeff \u200edog\u200f.", ["It is a dog."]),
        ("&lt;ref&gt; is a tag of MediaWiki.", []),
        # Sections that hold no text.
        ("It is.\n== References ==\nSmith, J. A Book.\n=== Notes ===\nB c."
         "\n== Life ==\nSo.", ["It is.", "So."]),
    ],
)  # fmt: skip
def test_each_construct_leaves_its_text(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is {{convert|1300|mi|km}} long.", "It is 1,300 miles long."),
        ("A {{convert|5|ft|adj=on}} man.", "A 5-foot man."),
        ("A ({{lang|fr|texte}}) text.", "A (texte) text."),
        ("A {{lang-de|''Text''}} text.", "A German: Text text."),
        ("He is {{nowrap|5 [[metre]]s}} tall.", "He is 5 metres tall."),
        ("{{As of|2014|3}}, it is.", "As of March 2014, it is."),
        ("It was {{as of|2014|lc=y}} so.", "It was as of 2014 so."),
        ("In {{circa|1200|1210}} it was.", "In c. 1200 – c. 1210 it was."),
        ("It has {{formatnum:12500}} of it.", "It has 12,500 of it."),
        ("It is {{frac|2|1|2}} of it.", "It is 2 1/2 of it."),
        ("It is {{val|6.24|e=18|u=kg}}.", "It is 6.24×10¹⁸ kg."),
        ("The {{USS|Hornet|CV-12|6}} is.", "The USS Hornet is."),
        ("The ''Eagle''{{'s}} pad.", "The Eagle's pad."),
        ("A{{snd}}b is.", "A – b is."),
        ("{{Nihongo|Tokyo|東京|Tōkyō}} is.", "Tokyo (東京, Tōkyō) is."),
        ("See {{ill|Erna Fuchs|de|lt=Fuchs}}.", "See Fuchs."),
    ],
)
def test_inline_templates_with_plain_text_are_rendered(text, expected):
    assert sentences(text) == [expected]


# --- Repairs and judgement --------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rome ({{IPAc-en|r}}) is.", "Rome is."),
        ("Rome ({{IPA-it|r}}; born 1 May) is.", "Rome (born 1 May) is."),
        ("Rome (Greek: {{x|y}}, born 1 May) is.", "Rome (born 1 May) is."),
        ("Rome (1 May{{sfn|x}} , {{x}}) is.", "Rome (1 May) is."),
        ("Rome (which has {{x}} of all) is.", "Rome is."),
        ("Rome , {{dubious}}, is .", "Rome, is."),
        ("It is{{clarify}} , so ; no.", "It is, so; no."),
        ("Most{{unknown remark|a=x}} people.", "Most people."),
    ],
)
def test_traces_of_templates_are_repaired(text, expected):
    assert sentences(text) == [expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("It has {{population}} people.", "lost_words"),
        ("{{population}} people live here.", "lost_words"),
        ("It is pronounced {{IPA-it|r}} here.", "lost_words"),
        ("It has 5{{unit}} of it.", "lost_words"),
        ("It was{{note on|a|b}} so.", "lost_words"),
        ("Rome {{IPA-it|ˈroma}} is big.", "lost_words"),
        ("{{see|this}}Rome is big.", "lost_words"),
        ("The value <math>x</math> is so.", "formula"),
        ("The <code>for</code> loop is so.", "formula"),
        ("It is [[so.", "leftover_markup"),
        ("It is }} so.", "leftover_markup"),
        ("where x is.", "lower_case_start"),
        ("They are:\n* A", "introduces_removed"),
        ("They are:\n\n{|\n|a\n|}", "introduces_removed"),
        ("'''A title'''", "unfinished"),
        ("(7) ... 5.", "no_words"),
        ("It is (so.", "unbalanced"),
    ],
)
def test_broken_sentences_are_dropped_and_counted(text, reason):
    kept, found = convert(f"{text}\n\nIt is.")
    assert kept == ["It is."]
    assert found[f"sentences_{reason}"] == 1


def test_removed_parts_are_counted_by_kind():
    text = (
        "A<ref>b</ref> is.<!-- c -->\n{{d}}\n[[File:e.jpg]]\n== F ==\n* g\n* h"
        "\n{|\n|i\n|}\n<math>j</math>\n {{nowrap|k}}\n"
    )
    assert convert(text)[1] == {
        "references": 1,
        "comments": 1,
        "templates": 1,
        "files_and_categories": 1,
        "headings": 1,
        "lists": 2,
        "tables": 1,
        "formulas": 1,
        "templates_rendered": 1,
        "preformatted": 1,
    }


# --- Languages --------------------------------------------------------------
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "de",
            "'''Berlin''' ({{IPA|b|Tondatei=x}}, {{enS|Berlin}}) ist groß."
            "[[Datei:a.jpg|mini|Das [[Tor]]]] Es lebte im 19. Jahrhundert von "
            "z. B. {{FormatZahl|5000}} Leuten. Im 20. Jahrhundert nicht.\n"
            "[[Kategorie:Ort]]",
            ["Berlin (englisch Berlin) ist groß.",
             "Es lebte im 19. Jahrhundert von z. B. 5.000 Leuten.",
             "Im 20. Jahrhundert nicht."],
        ),
        (
            "ja",
            "'''東京'''（とうきょう、{{lang-en|Tokyo}}）は首都である{{要出典}}。\n"
            "[[ファイル:a.jpg|thumb|説明[[図]]]]\n彼は「私は行く。君は来るな。」と言った。"
            "1990年に{{人口}}人がいた。終わり。",
            ["東京（とうきょう、Tokyo）は首都である。",
             "彼は「私は行く。君は来るな。」と言った。", "終わり。"],
        ),
        (
            "zh",
            "'''柏林'''（{{lang-de|Berlin}}{{IPA-de|x}}）是-{zh-hans:德国;"
            "zh-hant:德國}-首都。1990年-{H|zh:a}-统一。[[File:a.jpg|缩略图]]",
            ["柏林是德国首都。", "1990年统一。"],
        ),
        (
            "ar",
            "'''برلين''' ({{ألمانية|Berlin}}) هي عاصمة.[[ملف:a.jpg|تصغير|ن]] "
            "ثم عاد؟ نعم.\n[[تصنيف:مدن]]",
            ["برلين (بالألمانية: Berlin) هي عاصمة.", "ثم عاد؟", "نعم."],
        ),
        (
            "bg",
            "'''София''' ({{IPA|s}}) е столица{{източник}}. През 1920 г. е "
            "малка. Има {{население}} души.[[Файл:a.jpg|мини|[[б]]]]\n"
            "[[Категория:Градове]]",
            ["София е столица.", "През 1920 г. е малка."],
        ),
    ],
)  # fmt: skip
def test_languages(language, text, expected):
    assert sentences(text, language) == expected


# --- Any input --------------------------------------------------------------
TOKENS = st.sampled_from(
    """{{ }} [[ ]] [ ] {| |} | ! - = == * # : ; ' '' ''' ''''' <ref> </ref>
    <ref/> <ref <!-- --> <nowiki> </nowiki> <math> </math> <table> </table>
    <td> <li> <ul> </ul> <br> <b> </b> <sup> 2 </sup> File: Category: thumb 20px
    http://a.b & &amp; &#91; &#123; &#124; -{ }- __NOTOC__ ( ) " . , a Word and.
    {{convert|5|mi}} {{lang|fr|x}} {{x}} {{quote|A.}} 「 」 。 年 ١ \ue000 \x00
    """.split()
    + ["\n", "\n\n", " ", "\t", "\n ", "\n*", "\n{|", "\n|}", "\n=="]
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(TOKENS, max_size=40).map("".join), st.sampled_from("en zh".split())
)
def test_no_markup_is_left_whatever_the_page(text, language):
    found = sentences(text, language)
    assert not [sentence for sentence in found if LEFTOVER.search(sentence)]
    assert all(sentence == sentence.strip() != "" for sentence in found)


@pytest.mark.parametrize(
    "unit",
    ["{{", "[[", "{|\n", "<ref>", "'''''", "[http://a ", "<ref name=", "<b a=",
     "(a, ", '"a. ', "a. ", "「a。", "[[a]]", "b {{x}} ", "-{", "&", "__a",
     ", ;", "( ", "1"],
)  # fmt: skip
def test_pages_of_open_brackets_end(unit):
    # The parser alone takes minutes for some of them: its time grows with the
    # square of the number of links and tags without end.
    page = "Foo (b) is a thing " + unit * (30_000 // len(unit))
    assert isinstance(sentences(page), list)


# --- Real pages -------------------------------------------------------------
# tests/corpus/wikitext/ holds parts of pages of six Wikipedias (2016 to 2022,
# text under CC BY-SA) and their sentences, read by eye.
def test_real_excerpts():
    for path in sorted((Path(__file__).parent / "wikitext").glob("*.wiki")):
        language = path.name.split("-")[0]
        found = sentences(path.read_text("utf-8"), language)
        golden = path.with_suffix(".txt").read_text("utf-8")
        assert found == golden.splitlines(), path.name
