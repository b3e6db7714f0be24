"""Repeat the pages of a Wikipedia dump, to measure on a larger one.

    python tests/repeat_dump.py enwiki.xml.bz2 165 large.xml.bz2

writes the pages of a dump 165 times, one bzip2 stream for each copy, as in the
multistream dumps. Each copy of an article begins with a sentence of its own,
so that it is not dropped as a duplicate.
"""

import bz2
import re
import sys

_TITLE = re.compile(rb"<title>([^<]*)</title>")

# The beginning of an article's text; redirects have "#" there.
_TEXT = re.compile(rb"<text\b[^>]*(?<!/)>(?!\s*#)")


def repeated(xml: bytes, number: int) -> bytes:
    """Return the pages of copy `number`, all different from other copies."""
    xml = _TITLE.sub(rb"<title>\1 (copy %d)</title>" % number, xml)
    return _TEXT.sub(
        rb"\g<0>This is copy %d of an article, made to measure with.\n\n"
        % number,
        xml,
    )


def main() -> None:
    """Write the larger dump and print the size of its XML."""
    source, copies, target = sys.argv[1:]
    with bz2.open(source) as file:
        xml = file.read()
    first, last = xml.index(b"<page>"), xml.rindex(b"</page>") + len(b"</page>")
    head, pages, foot = xml[:first], xml[first:last], xml[last:]
    size = 0
    with open(target, "wb") as file:
        for number in range(int(copies)):
            piece = b"\n  " + repeated(pages, number)
            piece = (head if number == 0 else b"") + piece
            piece += foot if number == int(copies) - 1 else b""
            size += len(piece)
            file.write(bz2.compress(piece))
    print(f"{target}: {size / 1e6:.1f} MB of XML")


if __name__ == "__main__":
    main()
