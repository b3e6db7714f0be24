"""Texts are texts in the HTML of results, and control characters are seen."""

import xml.etree.ElementTree as ElementTree

import pytest

from tools.page import markup

EVIL = "<script>x</script>\"' ${1+1} {{value}} &amp;"


@pytest.mark.parametrize(
    "html",
    [
        markup.note(EVIL),
        markup.error(EVIL),
        markup.number(EVIL, 1),
        markup.bars(EVIL, EVIL, [(EVIL, 0.5)]),
        markup.marked(EVIL, [(EVIL, EVIL), (EVIL, None)], [EVIL], False),
        markup.shaded(EVIL, [(EVIL, 0.5)]),
    ],
)
def test_no_text_becomes_a_tag_or_a_template(html):
    assert not set("${}") & set(html)
    found = ElementTree.fromstring(f"<div>{html}</div>")
    assert not [*found.iter("script")]
    assert EVIL.lower() in "".join(found.itertext()).lower()


def test_control_characters_are_shown_by_number():
    assert markup.escaped("a\x07\n\tb") == "a&lt;U+0007&gt;\n\tb"
    assert markup.escaped("\u202e\x7f") == "&lt;U+202E&gt;&lt;U+007F&gt;"
    assert markup.escaped("\ud800") == "&lt;U+D800&gt;"
    assert markup.escaped("caf\u00e9 \u4e2d") == "caf\u00e9 \u4e2d"


def test_a_bar_is_as_wide_as_its_probability():
    html = markup.bars("", "", [("a", 0.976), ("b", 0.024)])
    assert "--share: 97.6%" in html and "--share: 2.4%" in html
