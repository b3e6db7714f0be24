"""Split paragraphs into sentences."""

import sentencex


def known_language(language: str) -> bool:
    """Return whether there are rules for the sentences of a language."""
    return bool(language)


def split(paragraph: str, language: str) -> list[str]:
    """Return the sentences of a paragraph, stripped, without empty ones."""
    found = (s.strip() for s in sentencex.segment(language, paragraph))
    return [sentence for sentence in found if sentence]
