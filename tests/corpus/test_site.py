"""Names of namespaces, redirects and disambiguation pages."""

import pytest

from corpus import site

GERMAN = site.from_namespaces(
    "de",
    ((-2, "Medium"), (0, ""), (6, "Datei"), (10, "Vorlage"), (14, "Kategorie")),
)


def test_own_names_come_before_those_of_other_wikis():
    wiki = site.from_namespaces("xx", ((100, "Datei"), (6, "Foo")))
    assert wiki.is_hidden("foo:a.jpg") and not wiki.is_hidden("datei:a.jpg")


@pytest.mark.parametrize(
    ("target", "hidden"),
    [
        ("Datei:a.jpg", True),
        ("file:a.jpg", True),
        ("Файл:a.jpg", True),
        ("File_:a.jpg", True),
        ("Kategorie:Ort", True),
        ("fr:Berlin", True),
        ("zh-min-nan:Berlin", True),
        ("Media:a.ogg", True),
        (":Datei:a.jpg", False),
        (":fr:Berlin", False),
        ("Berlin", False),
        ("Alien: Covenant", False),
        ("wikt:Hund", False),
        ("Wikipedia:Hilfe", False),
    ],
)
def test_which_links_show_no_text(target, hidden):
    assert GERMAN.is_hidden(target) is hidden


@pytest.mark.parametrize(
    "text",
    [
        "#REDIRECT [[A]]",
        "#redirect: [[A]]",
        "\n# Redirect [[A]] {{R from move}}",
        "#WEITERLEITUNG [[A]]",
        "#перенаправление [[A]]",
        "#виж [[A]]",
        "#転送 [[A]]",
        "#重定向 [[A]]",
        "#تحويل [[A]]",
    ],
)
def test_redirects(text):
    assert site.is_redirect(text)


@pytest.mark.parametrize(
    "text", ["# [[A]]", "#One [[A]]", "A. #REDIRECT [[B]]", "", "#REDIRECT A"]
)
def test_other_pages_are_no_redirects(text):
    assert not site.is_redirect(text)


@pytest.mark.parametrize(
    "text",
    [
        "'''A''' may be:\n* B\n{{disambig}}",
        "{{Human name disambiguation}}",
        "{{ Disambiguation |geo}}",
        "{{hndis|A, B}}",
        "{{Begriffsklärung}}",
        "{{曖昧さ回避}}",
        "{{人名の曖昧さ回避}}",
        "{{消歧义}}",
        "{{توضيح}}",
        "{{пояснение}}",
        "{{anlam ayrımı}}",
        "a\n__DISAMBIG__",
    ],
)
def test_disambiguation_pages(text):
    assert site.is_disambiguation(text, "A", GERMAN)


def test_disambiguation_pages_by_title_and_by_the_names_of_one_wiki():
    for word in ("(disambiguation)", "(Begriffsklärung)", "(曖昧さ回避)"):
        assert site.is_disambiguation("", f"A {word}", GERMAN)
    dutch = site.from_namespaces("nl", ())
    assert site.is_disambiguation("{{dp}}", "A", dutch)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("A {{disambiguation needed|date=x}} is.", "A"),
        ("A {{disambiguation link}} is.", "A"),
        ("{{Begriffsklärungshinweis}}\nA ist.", "A"),
        ("{{Dieser Artikel|A}}", "Disambiguation"),
        ("{{DP}}", "A (film)"),
    ],
)
def test_articles_are_no_disambiguation_pages(text, title):
    assert not site.is_disambiguation(text, title, GERMAN)
