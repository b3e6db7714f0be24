"""Results as HTML."""

import re

from tools.page import markup
from tools.page.views import Shown


def test_a_bar_is_as_long_as_its_probability():
    found = markup.result(Shown("good, 91%", rows=[("good", 0.91)]))
    assert "--share: 91.00%" in found and ">91%<" in found
    assert found.startswith("<h2>good, 91%</h2>")


def test_words_that_decided_are_bold_in_the_color_of_their_sign():
    words = [
        ("fine", 1.0),
        (" ", None),
        ("dull", -0.5),
        ("a", 0.2),
        ("b", 0.05),
    ]
    found = markup.result(Shown(marked=words))
    assert re.findall("<b>(.*?)</b>", found) == ["fine", "dull"]
    assert re.findall(r"hsl\((\d+) .*?/ (\d+)%", found) == [
        *[("220", "50"), ("30", "25"), ("220", "10")]
    ]


def test_each_kind_has_a_name_and_a_color():
    marked = [("Ann", "PER"), (" in ", None), ("Rome", "LOC"), ("Bo", "PER")]
    found = markup.result(Shown(marked=marked))
    assert re.sub("<.*?>", "", found) == "Ann PER in Rome LOCBo PER"
    first, second, third = re.findall(r"hsl\((\d+)", found)
    assert first == third != second


def test_all_texts_are_escaped():
    evil = "<b onclick='x'>\"&"
    shown = Shown(
        evil, [(evil, evil), (evil, 1.0)], [evil], [evil], [(evil, 0.5)]
    )
    found = markup.result(shown)
    assert "onclick='x'" not in found and found.count("&lt;b onclick") == 7
