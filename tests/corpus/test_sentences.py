"""Paragraphs to sentences in several languages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import sentences

GOLDEN = {
    "en": [
        "He lived in St. Louis in 1910.",
        "The approx. value was 5.5 km.",
        'Brig. Gen. Smith met J. F. Kennedy of the U.S. Army and asked: "Why?"',
        "(It was so.)",
        "Then he left.",
        "1990 was a good year.",
        "iPhone sales rose.",
    ],
    "de": [
        "Er wurde am 3. Mai 1920 z. B. in Berlin geboren.",
        "Im 19. Jahrhundert lebte dort Dr. Müller.",
        "Zum 150. Todestag kamen viele.",
        "Am Ende ging er.",
    ],
    "bg": [
        "През 1920 г. той е в София.",
        "Това е през 7 г. пр. н. е. (преди новата ера), или по-рано.",
        "Умира там.",
    ],
    "ru": ["Родился в 1920 г. в Москве.", "Это А. С. Пушкин.", "Конец."],
    "ar": ["ذهب (Wilhelm II) إلى المدرسة.", "ثم عاد؟", "نعم."],
    "hi": ["वह गया।", "1990 में वह आया।", "क्या?"],
    "ja": [
        "彼は「私は行く。君は来るな。」と言った。",
        "1990年に去った。",
        "本当？",
        "（注。これ。）終わり。",
    ],
    "zh": ["他说：“我走了。你别来。”", "1990年离开。", "真的吗？", "是！"],
}


@pytest.mark.parametrize("language", GOLDEN)
def test_golden_sentences(language):
    between = "" if language in ("ja", "zh") else " "
    paragraph = between.join(GOLDEN[language])
    assert sentences.split(paragraph, language) == GOLDEN[language]


@pytest.mark.parametrize("language", ["en", "de", "ja", "zh", "ar", "hi", "xx"])
@given(paragraph=st.text("aA1 .!?()\"'„“「」。！，é年ثक।;:", max_size=80))
def test_no_character_is_lost(language, paragraph):
    found = sentences.split(paragraph, language)
    assert "".join("".join(found).split()) == "".join(paragraph.split())
    assert all(sentence == sentence.strip() != "" for sentence in found)


def test_long_paragraphs_are_split_in_pieces():
    paragraph = "It is so. " * 5000
    assert sentences.split(paragraph, "en") == ["It is so."] * 5000
    assert "".join(sentences.split("a" * 50_000, "en")) == "a" * 50_000


@pytest.mark.parametrize(
    ("language", "known"),
    [("en", True), ("zh-hant", True), ("pt-BR", True), ("english", False)],
)
def test_known_languages(language, known):
    assert sentences.known_language(language) is known


@pytest.mark.parametrize("space", "\u00a0\u3000\u2028\u0085\u1680")
@pytest.mark.parametrize("language", ["en", "de", "zh"])
def test_white_space_before_a_full_stop_does_not_end_the_run(space, language):
    """Its Rust code fails on such a text, which no `except` catches."""
    text = f"We now come to plan A{space}. It is a good plan."
    found = sentences.split(text, language)
    assert " ".join(found) == text.replace(space, " ")
